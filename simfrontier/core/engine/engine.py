"""The engine of the fidelities without single messages: one issuer per rank class runs the program nodes of its role,
all in one event loop.

A program node is a single op, or represents a whole program call (a part of the program such as one layer's forward).
The nodes of a rank class represent those of all its ranks; with an exact folding every rank is a class. The k-th call
of a communicator that spans roles is one call for all roles that take part, and so is the k-th exchange between two
ranks.

A program node that represents a whole call takes its times from a simulation of that call alone, if all rank classes
that the call's collectives synchronise reach the call at the same instant and nothing else uses their links, memory or
compute units. Equal calls that follow immediately, such as the layers of a pipeline stage, then run in one go. When
something else begins to use the same resources, the call in progress continues op by op from its current state. Both
ways give the same times.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

import numpy as np

from simfrontier.base.arrays import Floats
from simfrontier.base.errors import SimfrontierError
from simfrontier.core.cost import OpWork
from simfrontier.core.engine.context import (
    CallAlone,
    CallByOps,
    Classes,
    Ending,
    EngineContext,
    OpInfo,
    WholeCalls,
    is_end_of,
    taken_over,
)
from simfrontier.core.engine.flows import INSTANT_S, RESOLUTION, FlowEvents, RunningFlow, at
from simfrontier.core.engine.step_path import number_nodes
from simfrontier.core.engine.stops import blocked_lines, job_stops
from simfrontier.core.engine.timeline import CallTimes, RoleTimeline, Timeline
from simfrontier.core.program import Issuer, Op, SegmentedProgram


class Engine(FlowEvents):
    """Simulation of one step, or of one program call alone: rank classes run programs divided into program nodes."""

    def __init__(
        self,
        roles: Sequence[tuple[EngineContext, SegmentedProgram, Classes]],
        later: Sequence[tuple[float, EngineContext]] = (),
    ) -> None:
        """`roles`: each role with the context of its job, its program, and the rank classes that run it. `later`:
        contexts of later machine states, in order, each with the time in seconds from which it applies."""
        self.contexts = [context for context, _, _ in roles]
        self.parts = [part for _, part, _ in roles]
        self.classes = [classes for _, _, classes in roles]
        super().__init__(self.contexts[0].rates)
        self.later = list(later)
        self.role_of = {cls: number for number, classes in enumerate(self.classes) for cls in classes}
        self.infos: list[list[OpInfo | None]] = []
        self.issuers: dict[int, Issuer] = {}
        for context, part, classes in roles:
            self.infos.append(context.infos(part))
            self.issuers.update({cls: Issuer(part.program) for cls in classes})
        self.ready, self.start, self.end = (
            {cls: [0.0] * self.parts[role].program.num_ops for cls, role in self.role_of.items()} for _ in range(3)
        )
        self.arrived: dict[tuple[int, int, int], int] = {}  # ready members by node, inner op and group
        self.by_ops: dict[int, CallByOps] = {}
        self.by_ops_keys: set[tuple[int, Classes]] = set()  # calls that are run op by op
        self.coming: dict[int, dict[Classes, list[int]]] = {}
        self.whole: list[WholeCalls] = []
        self.whole_load = 0  # links that any of them loads, as bits
        self.times_by_class: list[dict[tuple[int, int], tuple[float, CallTimes]]] = [{} for _ in roles]
        self.times_by_node: list[dict[int, list[tuple[float, Mapping[int, CallTimes]]]]] = [{} for _ in roles]
        self.nodes = number_nodes(self.parts, [context.pricing for context in self.contexts])

    @property
    def now(self) -> float:
        """Seconds since the step began."""
        return float(self.env.now)

    def run(self) -> tuple[RoleTimeline, ...]:
        """Run the simulation to the end and return the times of all roles. Raises JobStopsError if a component that the
        step needs is permanently dead."""
        self._start_all(list(self.role_of))
        self._settle_soon()
        self._await_change()
        self.env.run()
        if not all(issuer.is_finished for issuer in self.issuers.values()):
            raise self._stopped() or SimfrontierError(self._stuck())
        return tuple(self._role_timeline(number) for number in range(len(self.parts)))

    def run_until(self, time: float, instant: float) -> None:
        """Process all events up to a time (plus the tolerance `instant`), and advance everything in progress to that
        time."""
        self._start_all(list(self.role_of))
        self._settle_soon()
        self.env.run(until=time + instant)
        for sharing in self.sharing:
            for flow in sharing.flows:
                flow.left = max(0.0, flow.left - flow.rate * (time - sharing.since))

    def _stopped(self) -> SimfrontierError | None:
        """Return the error that names the permanently dead component because of which the step stops; None if there is
        none."""
        standing = [flow.op for sharing in self.sharing for flow in sharing.flows if not flow.rate]
        ops = [(self._op(ending), ending.classes[0]) for ending in [*self.still, *standing]]
        works = [(op, self.contexts[0].info(op).group_of[cls]) for op, cls in ops]
        return job_stops(self.contexts[0].pricing, works, self.now) if works else None

    def _role_timeline(self, role: int) -> RoleTimeline:
        ready, start, end = self._tables(role)
        return RoleTimeline(
            segmented=self.parts[role],
            classes=self.classes[role],
            timeline=Timeline(ready=ready, start=start, end=end),
            by_class=self.times_by_class[role],
            by_node=self.times_by_node[role],
        )

    def _tables(self, role: int) -> Floats:
        """Return the times at which each op of a role was ready, started and ended [3, num_classes, num_ops]."""
        tables = (self.ready, self.start, self.end)
        return np.array([[table[cls] for cls in self.classes[role]] for table in tables], float)

    def _stuck(self) -> str:
        lines = []
        for cls, issuer in self.issuers.items():
            part = self.parts[self.role_of[cls]]
            lines += blocked_lines(f"role {part.role.name}, rank class {cls}", issuer, part.program.ops)
        return "the simulated step is stuck: " + "; ".join(
            lines[:8] or [f"{len(self.arrived)} calls that not all ranks join"]
        )

    # ── starting ──

    def _start_all(self, classes: list[int]) -> None:
        now = self.now
        for cls in classes:
            role = self.role_of[cls]
            infos, keys, ready = self.infos[role], self.nodes.keys[role], self.ready[cls]
            for node in self.issuers[cls].startable():
                ready[node] = now
                info = infos[node]
                if info is not None:
                    self._arrive(cls, keys[node], -1, info)
                else:
                    self._come(cls, role, node)

    def _arrive(self, cls: int, key: int, inner: int, info: OpInfo) -> None:
        """Record that a rank class is ready for an op; the op begins when the last rank class of its group is ready."""
        group = info.group_of[cls]
        members = info.members[group]
        if len(members) > 1:
            place = key, inner, group
            count = self.arrived.get(place, 0) + 1
            if count < len(members):
                self.arrived[place] = count
                return
            self.arrived.pop(place, None)
        now = self.now
        if inner >= 0:
            for member in members:
                self.by_ops[member].start[inner] = now
        elif key in self.nodes.shared:
            for member in members:
                self.start[member][self.nodes.node(key, self.role_of[member])] = now
        else:
            node = key - self.nodes.first[self.role_of[cls]]
            for member in members:
                self.start[member][node] = now
        self._begin(info.works[group], Ending(key, members, inner))

    # ── calls ──

    def _come(self, cls: int, role: int, node: int) -> None:
        """Record that a rank class is ready for a program node that represents a whole program call."""
        coupled = self.contexts[role].coupled(self.parts[role], node, self.classes[role])[cls]
        key = self.nodes.keys[role][node]
        if self.by_ops_keys and (key, coupled) in self.by_ops_keys:
            self._run_by_ops(cls, role, node)
        else:
            self.coming.setdefault(key, {}).setdefault(coupled, []).append(cls)

    def _settled(self) -> None:
        """Start the program calls for which rank classes became ready at this instant: as a whole, if all rank classes
        that a call synchronises are ready and nothing else uses their links; otherwise op by op."""
        for key, sets in self.coming.items():
            together: list[int] = []
            for coupled, here in sets.items():
                role = self.role_of[here[0]]
                node = self.nodes.node(key, role)
                if len(here) == len(coupled) and self._is_clear(role, node, coupled):
                    together += coupled
                    continue
                self.by_ops_keys.add((key, coupled))
                for cls in here:
                    self._run_by_ops(cls, role, node)
            if together:
                self._run_whole(role, node, tuple(sorted(together)))
        self.coming.clear()
        if self.whole:
            for flow in self.woken:
                self._disturb(self.rates.load(flow.flow))

    def _is_clear(self, role: int, node: int, coupled: Classes) -> bool:
        """Return whether nothing in progress uses a link that a program call loads. Calls in progress as a whole that
        use one of these links continue op by op."""
        if self.contexts[role].stands_still(self.parts[role], node, coupled):
            return False
        load = self.contexts[role].load(self.parts[role], node, coupled)
        return not self._disturb(load) and not self.under_way(load)

    def _run_whole(self, role: int, node: int, classes: Classes) -> None:
        """Run a program call as a whole on rank classes that begin it at the same time and do not disturb each other.
        If these classes also end it at the same time, run the equal calls that follow immediately as well."""
        followers = self.parts[role].followers
        alone = self._alone(role, node, classes)
        nodes, begins = [node], [self.now]
        if len(alone.ends) == 1:
            ((length, _),) = alone.ends
            while followers[nodes[-1]] >= 0:
                nodes.append(followers[nodes[-1]])
                begins.append(begins[-1] + length)
        key, load = self.nodes.keys[role][nodes[-1]], self.contexts[role].load(self.parts[role], node, classes)
        calls = WholeCalls(role, nodes, begins, key, classes, load, alone, set(classes))
        self.whole.append(calls)
        self.whole_load |= load
        self._enter(calls, 0)
        for delay, ending in alone.ends:
            self._after(begins[-1] - self.now + delay, Ending(key, ending))

    def _enter(self, calls: WholeCalls, number: int) -> None:
        """Record that the program call with index `number` in `calls` has begun."""
        node, begin = calls.nodes[number], calls.begins[number]
        self.times_by_node[calls.role].setdefault(node, []).append((begin, calls.alone.times))
        for cls in calls.classes:
            self.start[cls][node] = begin

    def _pass_to(self, calls: WholeCalls, number: int) -> None:
        """Record that all program calls in `calls` before index `number` have ended, and the time at which call
        `number` began."""
        for each in range(1, number + 1):
            begin = calls.begins[each]
            self._enter(calls, each)
            for cls in calls.classes:
                self.ready[cls][calls.nodes[each]] = self.end[cls][calls.nodes[each - 1]] = begin
        if number:
            for cls in calls.classes:
                self.issuers[cls].pass_to(calls.nodes[number])

    def _alone(self, role: int, node: int, classes: Classes) -> CallAlone:
        """Return the times of the ops of a program call on rank classes that begin it at the same time, simulated
        without contention from other calls."""
        context = self.contexts[role]
        key, known = (self.parts[role].segment(node), classes), context.alone
        if key not in known:
            part = context.inner(self.parts[role], node).segmented
            (role_timeline,) = Engine([(context, part, classes)]).run()
            table, ends = role_timeline.timeline, dict[float, list[int]]()
            for row, cls in enumerate(classes):
                ends.setdefault(float(table.end[row].max()), []).append(cls)
            times = {
                cls: CallTimes(ready=table.ready[row], start=table.start[row], end=table.end[row])
                for row, cls in enumerate(classes)
            }
            known[key] = CallAlone(times, tuple((end, tuple(ending)) for end, ending in ends.items()))
        return known[key]

    def _run_by_ops(self, cls: int, role: int, node: int) -> None:
        self.start[cls][node] = self.now
        part, context = self.parts[role], self.contexts[role]
        inner = context.inner(part, node)
        program = inner.segmented.program
        times = ([0.0] * program.num_ops for _ in range(3))
        self.by_ops[cls] = CallByOps(node, self.nodes.keys[role][node], inner, Issuer(program), *times)
        self._next(cls)

    def _next(self, cls: int) -> None:
        """Start all ops that may start now in the program call that a rank class runs op by op."""
        call = self.by_ops[cls]
        for index in call.issuer.startable():
            call.ready[index] = self.now
            self._arrive(cls, call.key, index, call.inner.infos[index])

    def _disturb(self, load: int) -> bool:
        """Let the program calls that run as a whole and load any of these link classes continue op by op; return
        whether there are any such calls."""
        if not load & self.whole_load:
            return False
        disturbed = [calls for calls in self.whole if calls.load & load]
        for calls in disturbed:
            self._go_on_by_ops(calls)
        return bool(disturbed)

    def _go_on_by_ops(self, calls: WholeCalls) -> None:
        """Continue the program call in progress op by op: simulate it alone once more up to the current time, and take
        over the items in progress of that simulation."""
        self._take_out(calls)
        now, instant = self.now, max(INSTANT_S, self.now * RESOLUTION)
        number = bisect_right(calls.begins, now + instant) - 1
        self._pass_to(calls, number)
        context = self.contexts[calls.role]
        part, node, since = self.parts[calls.role], calls.nodes[number], min(now, calls.begins[number])
        key, inner = self.nodes.keys[calls.role][node], context.inner(part, node)
        alone = Engine([(context, inner.segmented, calls.classes)])
        alone.run_until(max(0.0, now - since), instant)
        going = {cls for cls in calls.left if not alone.issuers[cls].is_finished}
        for waiting in self.timers.values():
            waiting[:] = [what for what in waiting if not is_end_of(what, calls.key, going)]
        for cls in going:
            times = calls.alone.times[cls]
            tables = ((table + since).tolist() for table in (times.ready, times.start, times.end))
            self.by_ops[cls] = CallByOps(node, key, inner, alone.issuers[cls], *tables)
        for (index, _, group), count in alone.arrived.items():
            self.arrived[key, index, group] = count
        for flow in [flow for sharing in alone.sharing for flow in sharing.flows]:
            self.woken.append(taken_over(flow, key))
        for when, waiting in alone.timers.items():
            for what in waiting:
                self._after(max(0.0, since + when - now), taken_over(what, key))

    # ── other states of the machine ──

    def _await_change(self) -> None:
        if self.later:
            at(self.env, self.env.now + self.later[0][0] - self.now, self._settle_soon)

    def _changed(self, edge: float) -> bool:
        if not self.later or self.later[0][0] > self.now + (edge - self.env.now):
            return False
        self._change()
        return True

    def _change(self) -> None:
        """Switch to the next state of the machine. Program calls that run as a whole continue op by op; each flow in
        progress keeps its remaining fraction of work, and latencies that have begun are not changed."""
        for calls in list(self.whole):
            self._go_on_by_ops(calls)
        for sharing in list(self.sharing):
            self._stop(sharing)
        before, (_, after) = self.contexts[0], self.later.pop(0)
        self.contexts, self.rates = [after] * len(self.parts), after.rates
        self.infos = [after.infos(part) for part in self.parts]
        waiting = [what for each in self.timers.values() for what in each if isinstance(what, RunningFlow)]
        for flow in [*self.loose, *self.woken, *waiting]:
            self._take_over(flow, before, after)
        for cls, call in self.by_ops.items():
            call.inner = after.inner(self.parts[self.role_of[cls]], call.node)
        still, self.still = self.still, []
        for ending in still:
            self._begin(self._work(ending, after), ending)
        self._await_change()

    def _take_over(self, flow: RunningFlow, before: EngineContext, after: EngineContext) -> None:
        """Let a flow in progress continue in the next machine state, as the flow of the same op there."""
        was, work = self._work(flow.op, before), self._work(flow.op, after)
        if flow.then is not None:
            flow.flow = work.starting if work.starting >= 0 else after.idle
            flow = flow.then
        flow.flow = work.flow
        flow.left *= work.amount / was.amount

    def _work(self, ending: Ending, context: EngineContext) -> OpWork:
        """Return the work of the op whose end `ending` describes."""
        info = context.info(self._op(ending))
        return info.works[info.group_of[ending.classes[0]]]

    def _op(self, ending: Ending) -> Op:
        cls = ending.classes[0]
        if ending.inner >= 0:
            return self.by_ops[cls].inner.segmented.program.ops[ending.inner]
        role = self.role_of[cls]
        return self.parts[role].program.ops[self.nodes.node(ending.key, role)]

    # ── ending ──

    def _finish(self, ended: list[Ending]) -> None:
        now = self.now
        touched: dict[int, None] = {}
        inside: dict[int, None] = {}
        for ending in ended:
            if ending.inner >= 0:
                for cls in ending.classes:
                    call = self.by_ops[cls]
                    call.end[ending.inner] = now
                    call.issuer.finish(ending.inner)
                    inside[cls] = None
                continue
            if self.whole:
                self._end_whole(ending)
            key = ending.key
            if key in self.nodes.shared:
                for cls in ending.classes:
                    self._end(cls, self.nodes.node(key, self.role_of[cls]))
                    touched[cls] = None
                continue
            node = key - self.nodes.first[self.role_of[ending.classes[0]]]
            for cls in ending.classes:
                self.end[cls][node] = now
                self.issuers[cls].finish(node)
                touched[cls] = None
        for cls in sorted(inside):
            call = self.by_ops[cls]
            if not call.issuer.is_finished:
                self._next(cls)
                continue
            self.times_by_class[self.role_of[cls]][cls, call.node] = 0.0, self.by_ops.pop(cls).times()
            self._end(cls, call.node)
            touched[cls] = None
        self._start_all(sorted(touched))

    def _end(self, cls: int, node: int) -> None:
        self.end[cls][node] = self.now
        self.issuers[cls].finish(node)

    def _end_whole(self, ending: Ending) -> None:
        for calls in self.whole:
            if calls.key == ending.key and calls.left.issuperset(ending.classes):
                calls.left.difference_update(ending.classes)
                if not calls.left:
                    self._pass_to(calls, len(calls.nodes) - 1)
                    self._take_out(calls)
                return

    def _take_out(self, calls: WholeCalls) -> None:
        """Remove `calls` from the program calls that run as a whole."""
        self.whole.remove(calls)
        self.whole_load = 0
        for other in self.whole:
            self.whole_load |= other.load
