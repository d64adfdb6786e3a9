"""The engine for many rank classes of one role: each class has a clock of its own between the events of collectives.

Kernels load the memory and the compute units of their own rank alone, so rank classes meet in collectives only: where
one begins or ends, or where a kernel slows one. Until the next meeting all classes run on by themselves, side by side
in arrays. When it is depends on what they do, so they run too far, and those that meet are taken back to it (D. R.
Jefferson, Virtual Time, ACM TOPLAS 7(3), 1985). Meetings come in the order of time, so nothing goes back before one.

Partitions, the nodes of the job, have nothing to do with each other until a collective of several begins: each has its
own next meeting, and all those before the earliest time at which such a one can begin are met side by side (K. M.
Chandy and J. Misra, Distributed Simulation, IEEE TSE 5(5), 1979). While one is under way meetings are met one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfrontier.arrays import Floats, Ints
from simfrontier.cost import Cluster, OpWork
from simfrontier.errors import SimfrontierError
from simfrontier.network import solve_each
from simfrontier.schedule import ExpandedProgram, Issuer
from simfrontier.simulation.call_factors import lasting
from simfrontier.simulation.class_clocks import IDLE, MEETS, RUNS, WAITS, ClassClocks
from simfrontier.simulation.flow_rates import FlowRates, bits, not_held, sets_that_share
from simfrontier.simulation.op_tables import KERNEL_LINKS, OpTables, op_tables
from simfrontier.simulation.partitions import partitions_of
from simfrontier.simulation.timeline import Timeline
from simfrontier.simulation.waits import blocked_lines

TIE = 1e-12  # relative: rates closer than this are equal


def simulate_many(program: ExpandedProgram, cluster: Cluster, longer: Floats | None = None) -> Timeline:
    """Run one step of a schedule of one role, every op a node: the times of `Engine`, but for rounding. `longer`:
    where calls differ, how many times as long they take as is usual [num_rank_classes, num_ops]."""
    return _Engine(program, cluster, longer).run()


@dataclass(slots=True, eq=False)
class _Call:
    """A collective of one group under way: its latency, then its amount. `flow` is what runs of it, -1 while that is
    time alone; it has `left` at `since` and goes at `rate`."""

    op: int
    lane: int
    members: Ints
    first: int  # the first member
    classes: int  # the members, as bits
    work: OpWork
    until: float
    partition: int  # -1: of several
    flow: int = -1
    left: float = 0.0
    since: float = 0.0
    rate: float = 0.0

    def go_on(self, now: float, rate: float) -> None:
        """Take another rate from now on."""
        self.left -= self.rate * (now - self.since)
        self.since, self.rate = now, rate
        self.until = now + self.left / rate


_Complete = tuple[int, Ints, Ints, Ints, Floats]


class _Engine:
    """Rank classes are meant by their numbers, in ascending order: `who`, `members`.

    load, held      [KERNEL_LINKS, num_lanes, num_classes] what collectives take of the links of kernels, per unit of
                    rate and at any rate
    level           [num_lanes, num_classes] the rates of collectives
    free, taken, highest  [KERNEL_LINKS, num_classes] what kernels and collectives share of these links, what
                    collectives take of that, and the highest of their rates
    stopped         [num_classes] classes that wait for rates that depend on other classes
    bound           [num_classes] classes whose kernels slow a collective
    partitions      classes that meet without others, and share no link with them
    bits_of         by number of a group, its members as bits
    """

    def __init__(self, program: ExpandedProgram, cluster: Cluster, longer: Floats | None) -> None:
        self.program, self.cluster, self.longer = program, cluster, longer
        self.tables: OpTables = op_tables(program, cluster)
        self.rates = FlowRates(cluster.flows, cluster.folding.capacity)
        num, num_lanes = cluster.folding.num_rank_classes, len(program.lanes)
        self.clocks = ClassClocks(num_lanes, num)
        self.lanes = np.arange(num_lanes)[:, None]
        self.ready, self.start, self.end = np.zeros((3, num, program.num_ops))
        self.calls: list[_Call] = []
        self.complete: list[_Complete] | None = None
        self.load, self.held = np.zeros((2, KERNEL_LINKS, num_lanes, num))
        self.level = np.zeros((num_lanes, num))
        self.free = self.rates.capacity[self.tables.links]
        self.taken, self.highest = np.zeros((2, KERNEL_LINKS, num))
        self.stopped, self.bound = np.zeros((2, num), bool)
        self.bits_of: dict[int, int] = {}
        self.partitions = partitions_of(cluster, self.tables, self.rates)

    def run(self) -> Timeline:
        num = len(self.stopped)
        everyone = np.arange(num)
        self._start(everyone, np.zeros(num))
        self._rate_kernels(everyone, np.zeros(num))
        while True:
            meeting, wide = self._run_on()
            first = min(float(meeting.min()), wide)
            if first == np.inf:
                break
            early = meeting < min(wide, self._wide_not_before(meeting))
            if self._is_wide_under_way() or not early.any():
                self._meet(np.full(num, first))
            else:
                self._meet(np.where(early, meeting, -np.inf)[self.partitions.of_class])
            self.clocks.forget(first)
        if (self.clocks.done.sum(axis=0) < self.program.num_ops).any():
            raise SimfrontierError(self._stuck())
        return Timeline(ready=self.ready, start=self.start, end=self.end)

    def _stuck(self) -> str:
        lines = list[str]()
        for cls, done in enumerate(self.clocks.done.T.tolist()):
            issuer = Issuer(self.program)
            for ops, count in zip(self.program.by_lane, done, strict=True):
                for op in ops[:count]:
                    issuer.finish(op)
            lines += blocked_lines(f"rank class {cls}", issuer, self.program.ops)
        return "the simulated step is stuck: " + "; ".join(lines[:8])

    # ── classes by themselves ──

    def _run_on(self) -> tuple[Floats, float]:
        """Run every class on until nothing more ends in it by itself before its next meeting; when these are, of each
        partition by itself [num_partitions] and of several, inf: never."""
        clocks, partitions, wide_under_way = self.clocks, self.partitions, self._is_wide_under_way()
        meeting = np.full(partitions.num, np.inf)
        wide = np.inf
        for call in self.calls:
            if call.partition < 0:
                wide = min(wide, call.until)
            elif call.until < meeting[call.partition]:
                meeting[call.partition] = call.until
        while True:
            for *_, came in self._complete():
                np.minimum.at(meeting, partitions.of_group[partitions.is_own], came[partitions.is_own])
                wide = min(wide, float(came[~partitions.is_own].min(initial=np.inf)))
            np.minimum.at(meeting, partitions.of_class[self.stopped], clocks.now[self.stopped])
            ends = clocks.until.min(axis=0)
            limit = np.minimum(meeting.min() if wide_under_way else meeting, wide)
            limit = np.broadcast_to(limit, meeting.shape)[partitions.of_class]
            who = np.flatnonzero((ends <= limit) & (ends < np.inf) & ~self.stopped)
            if not len(who):
                return meeting, wide
            now = ends[who]
            clocks.move(who, now)
            lane, column = np.nonzero(clocks.until[:, who] <= now)
            self._finish(lane, who[column], now[column])
            self._start(who, now)
            self.stopped[who] = self._rate_kernels(who, now) | self.bound[who]

    def _finish(self, lane: Ints, cls: Ints, now: Floats) -> None:
        """End what lanes run, each of one class."""
        clocks = self.clocks
        self.end[cls, self.tables.op_at[lane, clocks.done[lane, cls]]] = now
        clocks.done[lane, cls] += 1
        clocks.lane[lane, cls] = IDLE
        clocks.until[lane, cls] = np.inf
        clocks.left[lane, cls] = 0.0

    def _start(self, who: Ints, now: Floats) -> None:
        """Start what may start on idle lanes: kernels run, collectives wait for their other ranks."""
        clocks, tables = self.clocks, self.tables
        done = clocks.done[:, who]
        heads = tables.op_at[self.lanes, done]
        may = (clocks.lane[:, who] == IDLE) & (tables.needs[heads] <= done.T).all(axis=2)
        lane, column = np.nonzero(may)
        cls, op, at = who[column], heads[lane, column], now[column]
        self.ready[cls, op] = at
        meets = tables.meets[op]
        if meets.any():
            self.complete = None
        clocks.lane[lane, cls] = np.where(meets, WAITS, RUNS)
        alone = ~meets
        lane, cls, op, at = lane[alone], cls[alone], op[alone], at[alone]
        self.start[cls, op] = at
        row = tables.distinct[op]
        amount, latency_s = tables.amount[row, cls], tables.latency_s[row, cls]
        if self.longer is not None:
            amount, latency_s = amount * self.longer[cls, op], latency_s * self.longer[cls, op]
        clocks.left[lane, cls] = amount
        clocks.rate[lane, cls] = 0.0
        clocks.until[lane, cls] = np.where(amount > 0.0, np.inf, at + latency_s)

    def _rate_kernels(self, who: Ints, now: Floats) -> NDArray[np.bool_]:
        """Set the rates of kernels beside collectives that have theirs; the classes whose kernels would slow one."""
        clocks, tables = self.clocks, self.tables
        row = tables.distinct[tables.op_at[self.lanes, clocks.done[:, who]]]
        runs = clocks.left[:, who] > 0.0
        rate, filled = solve_each(
            tables.load[:, row, who], self.free[:, who], self.taken[:, who], tables.cap[row, who], runs
        )
        self._go_on(who, now, runs, rate)
        slows: NDArray[np.bool_] = np.any(filled * (1.0 + TIE) < self.highest[:, who], axis=0)
        return slows

    def _go_on(self, who: Ints, now: Floats, runs: NDArray[np.bool_], rate: Floats) -> None:
        """Let the kernels that run take these rates from now on."""
        clocks = self.clocks
        left = np.maximum(clocks.left[:, who] - clocks.rate[:, who] * (now - clocks.since[:, who]), 0.0)
        clocks.left[:, who], clocks.rate[:, who], clocks.since[:, who] = left, rate, now
        ends = now + np.divide(left, rate, out=np.full(left.shape, np.inf), where=rate > 0.0)
        clocks.until[:, who] = np.where(runs, ends, clocks.until[:, who])

    # ── meetings ──

    def _complete(self) -> list[_Complete]:
        """What `_looked_for` finds, which is looked for anew where a rank waits that did not, or does no more."""
        if self.complete is None:
            self.complete = list(self._looked_for())
        return self.complete

    def _looked_for(self) -> Iterator[_Complete]:
        """Lanes on which all ranks of some collective wait: the classes that wait there, their ops and groups, and when
        the last rank came of each group [num_groups], inf where not all have."""
        tables, num_groups = self.tables, len(self.tables.group_size)
        lanes, classes = np.nonzero(self.clocks.lane == WAITS)
        if not len(lanes):
            return
        each = tables.op_at[lanes, self.clocks.done[lanes, classes]]
        own = tables.group[tables.distinct[each], classes]
        count = np.bincount(lanes * num_groups + own, minlength=len(self.lanes) * num_groups)
        whole = count.reshape(-1, num_groups) == tables.group_size
        for lane in np.flatnonzero(whole.any(axis=1)).tolist():
            mine = lanes == lane
            cls, ops, groups = classes[mine], each[mine], own[mine]
            came = np.where(whole[lane], 0.0, np.inf)
            np.maximum.at(came, groups, self.ready[cls, ops])
            yield lane, cls, ops, groups, came

    def _is_wide_under_way(self) -> bool:
        """Whether a collective of several partitions is under way: it may share links with any other."""
        return any(call.partition < 0 for call in self.calls)

    def _wide_not_before(self, meeting: Floats) -> float:
        """A time before which no collective of several partitions can begin that some rank waits for; `meeting`: of
        each partition, the time up to which it goes by itself."""
        partitions, tables = self.partitions, self.tables
        lanes, classes = np.nonzero(self.clocks.lane == WAITS)
        each = tables.op_at[lanes, self.clocks.done[lanes, classes]]
        group = tables.group[tables.distinct[each], classes]
        is_wide = ~partitions.is_own[group]
        lanes, classes, each, group = lanes[is_wide], classes[is_wide], each[is_wide], group[is_wide]
        not_before = np.inf
        for number in np.unique(group).tolist():
            mine = group == number
            come = meeting[partitions.of_class]
            come[classes[mine]] = np.minimum(come[classes[mine]], self.ready[classes[mine], each[mine]])
            not_before = min(not_before, float(come[partitions.members[number]].max()))
        return not_before

    def _meet(self, now: Floats) -> None:
        """End and begin the collectives that end and begin now [num_classes], and share anew what they shared; what of
        partitions that do not meet now (-inf) stays as it is."""
        touched = self.stopped & (self.clocks.now <= now)
        self.stopped[touched] = False
        links = bits(np.unique(self.tables.links[:, touched]))
        again = True
        while again:
            again = False
            ended = [call for call in self.calls if call.until <= now[call.first]]
            if ended:
                links |= self._end(ended, now)
                for call in ended:
                    touched[call.members] = True
                again = True
            for lane, cls, ops, groups, came in self._complete():
                begins = np.flatnonzero(came[groups] <= now[cls])
                if len(begins):
                    links |= self._begin(lane, cls[begins], ops[begins], groups[begins], now)
                    again = True
        self._share(links, touched, now)

    def _begin(self, lane: int, who: Ints, ops: Ints, groups: Ints, now: Floats) -> int:
        """Begin collectives of a lane, on classes with the op and group of each; the links that they use from now on,
        as bits."""
        self._take_back(who, now)
        self.start[who, ops] = now[who]
        self.clocks.lane[lane, who] = MEETS
        self.complete = None
        links = 0
        for group in np.unique(groups).tolist():
            mine = np.flatnonzero(groups == group)
            links |= self._begin_one(lane, who[mine], int(ops[mine[0]]), group, float(now[who[mine[0]]]))
        return links

    def _begin_one(self, lane: int, members: Ints, op: int, group: int, now: float) -> int:
        first = int(members[0])
        work = self.tables.work(op, first)
        if self.longer is not None:
            work = lasting(work, float(self.longer[first, op]))
        if group not in self.bits_of:
            self.bits_of[group] = bits(members)
        partition = int(self.partitions.of_group[group])
        call = _Call(op, lane, members, first, self.bits_of[group], work, now + work.latency_s, partition)
        self.calls.append(call)
        if work.amount <= 0.0:
            return 0
        if work.starting >= 0:
            return self._run(call, work.starting, work.latency_s, now)
        return 0 if work.latency_s > 0.0 else self._run(call, work.flow, work.amount, now)

    def _end(self, calls: Sequence[_Call], now: Floats) -> int:
        """End the latency of collectives, or the whole of them; the links of which they used something else before, or
        use something from now on."""
        self._take_back(np.unique(np.concatenate([call.members for call in calls])), now)
        links, over = 0, list[_Call]()
        for call in calls:
            links |= 0 if call.flow < 0 else self.rates.load(call.flow)
            if call.work.amount > 0.0 and call.flow != call.work.flow:
                links |= self._run(call, call.work.flow, call.work.amount, float(now[call.first]))
            else:
                over.append(call)
        if over:
            ended = set(map(id, over))
            self.calls = [call for call in self.calls if id(call) not in ended]
            members = np.concatenate([call.members for call in over])
            lanes = np.repeat([call.lane for call in over], [len(call.members) for call in over])
            self.load[:, lanes, members] = self.held[:, lanes, members] = self.level[lanes, members] = 0.0
            self.clocks.now[members] = now[members]
            self._finish(lanes, members, now[members])
            who = np.unique(members)
            self._start(who, now[who])
        return links

    def _run(self, call: _Call, flow: int, amount: float, now: float) -> int:
        """Let a flow of a collective run; the links that it uses, as bits."""
        call.flow, call.left, call.since, call.rate, call.until = flow, amount, now, 0.0, np.inf
        one, links = self.cluster.flows[flow], self.tables.links[:, call.members]
        at = np.minimum(np.searchsorted(one.rows, links), len(one.rows) - 1)
        uses = one.rows[at] == links
        self.load[:, call.lane, call.members] = np.where(uses, one.load[at], 0.0)
        self.held[:, call.lane, call.members] = np.where(uses, one.reserved[at], 0.0)
        return self.rates.load(flow)

    def _take_back(self, who: Ints, now: Floats) -> None:
        """Undo what classes have done after now [num_classes]."""
        changed = self.clocks.take_back(who, now)
        if len(changed):
            self.stopped[changed] = False
            self.complete = None

    # ── rates at a meeting ──

    def _share(self, links: int, touched: NDArray[np.bool_], now: Floats) -> None:
        """Set the rates of collectives that share some of these links, and of kernels beside them or of classes that
        were touched."""
        sets = []
        for calls in self._sharing(links, touched):
            members = calls[0].members if len(calls) == 1 else np.unique(np.concatenate([c.members for c in calls]))
            sets.append((calls, members))
        for calls, members in self._not_as_before(sets, touched, now):
            self._share_between(calls, members, now)

    def _sharing(self, links: int, touched: NDArray[np.bool_]) -> list[list[_Call]]:
        """Collectives that flow, in sets that share no link with each other; of these, the sets that use one of these
        links, or run on a class that was touched."""
        classes = bits(np.flatnonzero(touched))
        flowing = [(self.rates.load(call.flow), call) for call in self.calls if call.flow >= 0]
        reached, apart = links, list[tuple[int, _Call]]()
        near = list[_Call]()
        for load, call in flowing:
            if load & links or call.classes & classes:
                reached |= load
                near.append(call)
            else:
                apart.append((load, call))
        found = True
        while found and apart:
            found, rest = False, list[tuple[int, _Call]]()
            for load, call in apart:
                if load & reached:
                    reached |= load
                    near.append(call)
                    found = True
                else:
                    rest.append((load, call))
            apart = rest
        return [calls for _, calls in sets_that_share(near, lambda call: self.rates.load(call.flow))]

    def _not_as_before(
        self, sets: Sequence[tuple[list[_Call], Ints]], touched: NDArray[np.bool_], now: Floats
    ) -> list[tuple[list[_Call], Ints]]:
        """Of sets of collectives, with their members, those that kernels slow. Where they slow none, and on classes
        that were touched and are of no set, only the rates that change are set, and what runs on their classes."""
        slowed = [(calls, members) for calls, members in sets if self.bound[members].any()]
        free = [(calls, members) for calls, members in sets if not self.bound[members].any()]
        affected, changed = touched.copy(), list[list[tuple[_Call, float]]]()
        for calls, _ in free:
            rates = self.rates.of(tuple(sorted(call.flow for call in calls)))
            changed.append([(call, rates[call.flow]) for call in calls if call.rate != rates[call.flow]])
            for call, _ in changed[-1]:
                affected[call.members] = True
        for _, members in slowed:
            affected[members] = False
        who = np.flatnonzero(affected)
        if not len(who):
            return slowed
        self._take_back(who, now)
        for each in changed:
            for call, rate in each:
                self.level[call.lane, call.members] = rate
        self._look_around(who)
        slows = np.zeros(len(affected), bool)
        slows[who] = self._rate_kernels(who, now[who])
        for (calls, members), each in zip(free, changed, strict=True):
            if slows[members].any():
                slowed.append((calls, members))
                continue
            for call, rate in each:
                call.go_on(float(now[call.first]), rate)
        return slowed

    def _share_between(self, calls: list[_Call], members: Ints, now: Floats) -> None:
        """Set the rates of collectives that share links, and of the kernels of all their members.

        Rates are max-min fair if each flow is at its cap or uses a full link on which no rate is higher. The
        collectives by themselves, and then the kernels of each class by themselves in what is left of their links, are
        so together too, unless kernels fill a link on which a collective has a higher rate: their class is solved for
        together with the collectives.
        """
        self._take_back(members, now)
        at, flows = now[members], [call.flow for call in calls]
        self.bound[members] = False
        while True:
            bound = members[self.bound[members]]
            lane, column = np.nonzero(self.clocks.left[:, bound] > 0.0)
            kernels = self._flows(lane, bound[column])
            together = tuple(sorted([*flows, *kernels]))
            rates = self.rates.solved(together) if kernels else self.rates.of(together)
            for call in calls:
                self.level[call.lane, call.members] = rates[call.flow]
            self._look_around(members)
            slows = self._rate_kernels(members, at) & ~self.bound[members]
            if not slows.any():
                break
            self.bound[members[slows]] = True
        if kernels:
            rate = np.zeros((len(self.lanes), len(bound)))
            rate[lane, column] = [rates[flow] for flow in kernels]
            self._go_on(bound, now[bound], rate > 0.0, rate)
        for call in calls:
            if call.rate != rates[call.flow]:
                call.go_on(float(now[call.first]), rates[call.flow])

    def _flows(self, lane: Ints, cls: Ints) -> list[int]:
        """The flows of kernels that run on lanes, each of one class."""
        op = self.tables.op_at[lane, self.clocks.done[lane, cls]]
        flows: list[int] = self.tables.flow[self.tables.distinct[op], cls].tolist()
        return flows

    def _look_around(self, who: Ints) -> None:
        """What collectives leave of their links to the kernels of classes."""
        load, level = self.load[:, :, who], self.level[:, who]
        self.free[:, who] = not_held(self.rates.capacity[self.tables.links[:, who]], self.held[:, :, who].sum(axis=1))
        self.taken[:, who] = (load * level).sum(axis=1)
        self.highest[:, who] = np.where(load > 0.0, level, 0.0).max(axis=1)
