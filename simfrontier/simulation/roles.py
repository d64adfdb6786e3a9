"""The engine for several roles: one issuer per rank class in the nodes of its role's program, on one clock.

The k-th call of a communicator that spans roles, and the k-th exchange of two ends, is one call for all that take part.

A node that stands for a whole call takes the times of a run of that call by itself, if all rank classes that its
collectives couple come to it at one instant and nothing else can use a link, memory or compute units of theirs before
it ends. Otherwise its ops are run one by one, each rank class at its own pace. Both give the same times.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from simfrontier.cost import Cluster
from simfrontier.errors import SimfrontierError
from simfrontier.schedule import (
    LANE,
    Compute,
    Issuer,
    SegmentedProgram,
    Sequence as CallSequence,
    ops_by_lane,
    sequence_of,
)
from simfrontier.simulation.context import Block, CallAlone, Classes, EngineContext, InnerCall, RoleLoads
from simfrontier.simulation.engine import OpInfo
from simfrontier.simulation.flows import INSTANT_S, FlowEvents, RunningFlow
from simfrontier.simulation.role_timelines import RoleTimeline, RoleTimelines
from simfrontier.simulation.timeline import CallTimes, Timeline
from simfrontier.simulation.waits import blocked_lines

Key = int | tuple[int, int]  # a node of some role (numbered on from role to role), or (node, number of its inner op)
Ending = tuple[Key, Classes]  # what ends, on which rank classes; of a call that was run as a whole: (-1 - node, ...)


def simulate_roles(parts: Sequence[SegmentedProgram], cluster: Cluster, contended: bool = True) -> RoleTimelines:
    """Run one step of all roles; not `contended`, every op takes its time alone (fidelity `analytic`)."""
    classes = [tuple(np.flatnonzero(cluster.role_of == number).tolist()) for number in range(len(parts))]
    return _Engine(EngineContext(cluster, contended), list(zip(parts, classes, strict=True))).run()


@dataclass(slots=True)
class _Script:
    """A call that a rank class runs op by op: its node, how far it is, and the times so far."""

    node: int
    key: int
    inner: InnerCall
    issuer: Issuer
    ready: list[float]
    start: list[float]
    end: list[float]


class _Engine(FlowEvents):
    def __init__(self, context: EngineContext, parts: list[tuple[SegmentedProgram, Classes]]) -> None:
        super().__init__(context.cluster, context.memo)
        self.context = context
        self.parts = [part for part, _ in parts]
        self.classes = [classes for _, classes in parts]
        self.role_of = {cls: number for number, (_, classes) in enumerate(parts) for cls in classes}
        self.infos: list[list[OpInfo | None]] = []
        self.issuers: dict[int, Issuer] = {}
        self.by_lane = [ops_by_lane(part.program) for part in self.parts]
        for number, (part, classes) in enumerate(parts):
            infos = [
                context.info(op) if block is None else None
                for op, block in zip(part.program.ops, part.blocks, strict=True)
            ]
            self.infos.append(infos)
            self.issuers.update({cls: Issuer(part.program, self.by_lane[number]) for cls in classes})
        self.ready = {cls: [0.0] * self.parts[role].program.num_ops for cls, role in self.role_of.items()}
        self.start = {cls: [0.0] * self.parts[role].program.num_ops for cls, role in self.role_of.items()}
        self.end = {cls: [0.0] * self.parts[role].program.num_ops for cls, role in self.role_of.items()}
        self._number()
        self.arrived: dict[tuple[Key, int], int] = {}
        self.scripts: dict[int, _Script] = {}
        self.coming: dict[int, dict[Classes, list[int]]] = {}
        self.expanded_calls: set[tuple[int, Classes]] = set()  # calls that are run op by op
        self.times_by_class: list[dict[tuple[int, int], CallTimes]] = [{} for _ in parts]
        self.times_by_node: list[dict[int, list[tuple[float, Mapping[int, CallTimes]]]]] = [{} for _ in parts]
        self.coupled: list[dict[int, dict[int, Classes]]] = [{} for _ in parts]  # by number of the block
        self.disturbing: dict[tuple[int, Classes], tuple[int, ...] | None] = {}
        self.loads = RoleLoads(context, parts)
        self.sets: list[tuple[int, list[RunningFlow]]] = []  # flows that share links, with the links that they load
        self.rated: list[RunningFlow] = []
        self.order: dict[int, None] = {}  # nodes by when they last ended on a rank class

    def _number(self) -> None:
        """Number all nodes on from role to role; calls that roles share have the number of the first role's node."""
        self.keys: list[list[int]] = []
        self.node_of: dict[int, dict[int, int]] = {}  # of shared calls: their node in each role
        known: dict[tuple[CallSequence, int], int] = {}
        base = 0
        shared = self.cluster.role_assignment.is_shared
        for role, part in enumerate(self.parts):
            count: defaultdict[CallSequence, int] = defaultdict(int)
            keys = list(range(base, base + part.program.num_ops))
            for node, op in enumerate(part.program.ops):
                if not isinstance(op, Compute) and shared(op):
                    sequence = sequence_of(op)
                    key = known.setdefault((sequence, count[sequence]), keys[node])
                    count[sequence] += 1
                    self.node_of.setdefault(key, {})[role] = node
                    keys[node] = key
            self.keys.append(keys)
            base += len(keys)
        self.base = np.cumsum([0, *(len(keys) for keys in self.keys)]).tolist()

    def run(self) -> RoleTimelines:
        self._start_all(list(self.role_of))
        self._settle_soon()
        self.env.run()
        if not all(issuer.is_finished for issuer in self.issuers.values()):
            raise SimfrontierError(self._stuck())
        return RoleTimelines(
            by_role=tuple(self._role_timeline(number) for number in range(len(self.parts))),
            order=tuple(self._participants(key) for key in self.order),
        )

    def _participants(self, key: int) -> tuple[tuple[int, int], ...]:
        if key in self.node_of:
            return tuple(self.node_of[key].items())
        role = bisect_right(self.base, key) - 1
        return ((role, key - self.base[role]),)

    def _role_timeline(self, role: int) -> RoleTimeline:
        classes = self.classes[role]
        ready, start, end = (
            np.array([table[cls] for cls in classes], float) for table in (self.ready, self.start, self.end)
        )
        timeline = Timeline(ready=ready, start=start, end=end, num_solves=len(self.memo))
        return RoleTimeline(
            segmented=self.parts[role],
            classes=classes,
            timeline=timeline,
            by_class=self.times_by_class[role],
            by_node=self.times_by_node[role],
        )

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
        now = self.env.now
        for cls in classes:
            role = self.role_of[cls]
            infos, keys = self.infos[role], self.keys[role]
            for node in self.issuers[cls].startable():
                self.ready[cls][node] = now
                info = infos[node]
                if info is not None:
                    self._arrive(cls, keys[node], info)
                else:
                    self._come(cls, role, node)

    def _arrive(self, cls: int, key: Key, info: OpInfo) -> None:
        """A rank class is ready for an op; with the last of its group the op begins."""
        group = info.group_of[cls]
        members = info.members[group]
        if len(members) > 1:
            count = self.arrived.get((key, group), 0) + 1
            if count < len(members):
                self.arrived[key, group] = count
                return
            self.arrived.pop((key, group), None)
        now = self.env.now
        for member in members:
            if isinstance(key, tuple):
                self.scripts[member].start[key[1]] = now
            else:
                self.start[member][self._node(key, member)] = now
        self._begin(info.works[group], (key, members), 0)

    def _node(self, key: int, cls: int) -> int:
        role = self.role_of[cls]
        shared = self.node_of.get(key)
        return key - self.base[role] if shared is None else shared[role]

    def _come(self, cls: int, role: int, node: int) -> None:
        """A rank class is ready for a call."""
        block = self._block(role, node)
        number = self.parts[role].block_number(node)
        coupled = self.coupled[role].get(number)
        if coupled is None:
            coupled = self.coupled[role][number] = self.context.couples(number, block, self.classes[role])
        with_it, key = coupled[cls], self.keys[role][node]
        if self.expanded_calls and (key, with_it) in self.expanded_calls:
            self._run_apart(cls, role, node)
        else:
            self.coming.setdefault(key, {}).setdefault(with_it, []).append(cls)

    def _settled(self) -> None:
        """Calls whose rank classes have come together run as a whole, if nothing can disturb them; others op by op."""
        if not self.coming:
            return
        for key, sets in self.coming.items():
            whole: list[int] = []
            for coupled, here in sets.items():
                role = self.role_of[here[0]]
                node = key - self.base[role]
                if len(here) == len(coupled) and self._is_clear(role, node, coupled):
                    whole += coupled
                    continue
                self.expanded_calls.add((key, coupled))
                for cls in here:
                    self._run_apart(cls, role, node)
            if whole:
                self._run_whole(role, node, tuple(sorted(whole)))
        self.coming.clear()

    def _run_whole(self, role: int, node: int, classes: Classes) -> None:
        """Rank classes that begin a call together, and do not disturb each other, are run as one."""
        now = self.env.now
        times = self._alone(role, node, classes)
        self.times_by_node[role].setdefault(node, []).append((now, times.times))
        for cls in classes:
            self.start[cls][node] = now
        for delay, ending in times.ends:
            self._after(delay, ((-1 - node, ending), 0), self.ended)

    def _alone(self, role: int, node: int, classes: Classes) -> CallAlone:
        """When the ops of a call run on rank classes that begin it together, with nothing beside them."""
        key, known = (self.parts[role].block_number(node), classes), self.context.alone
        if key not in known:
            part = self.context.program(self.parts[role], node).segmented
            (role_timeline,) = _Engine(self.context, [(part, classes)]).run().by_role
            times, ends = role_timeline.timeline, dict[float, list[int]]()
            for row, cls in enumerate(classes):
                ends.setdefault(float(times.end[row, -1]), []).append(cls)
            known[key] = CallAlone(
                times={
                    cls: CallTimes(ready=times.ready[row], start=times.start[row], end=times.end[row])
                    for row, cls in enumerate(classes)
                },
                ends=tuple((end, tuple(ending)) for end, ending in ends.items()),
            )
        return known[key]

    def _run_apart(self, cls: int, role: int, node: int) -> None:
        self.start[cls][node] = self.env.now
        inner = self.context.program(self.parts[role], node)
        program = inner.segmented.program
        times = ([0.0] * program.num_ops for _ in range(3))
        issuer = Issuer(program, inner.by_lane)
        self.scripts[cls] = _Script(node, self.keys[role][node], inner, issuer, *times)
        self._next(cls)

    def _next(self, cls: int) -> None:
        """Start what a rank class may start of the call that it runs op by op."""
        script = self.scripts[cls]
        for at in script.issuer.startable():
            script.ready[at] = self.env.now
            self._arrive(cls, (script.key, at), script.inner.infos[at])

    def _block(self, role: int, node: int) -> Block:
        block = self.parts[role].blocks[node]
        assert block is not None, f"node {node} of role {role} is an op, not a call"
        return block

    # ── whether a call can be disturbed ──

    def _is_clear(self, role: int, node: int, coupled: Classes) -> bool:
        """Whether no link that the call loads can be loaded by others, from now to its end."""
        key = self.parts[role].block_number(node), coupled
        if key not in self.disturbing:
            self.disturbing[key] = self._disturbing(role, node, coupled)
        lanes = self.disturbing[key]
        if not lanes:
            return lanes is not None
        program, by_lane = self.parts[role].program, self.by_lane[role]
        mine, position = program.lane[node], program.position[node]
        for cls in coupled:
            done = self.issuers[cls].done
            for lane in lanes:
                if done[lane] < len(by_lane[lane]):
                    waits = program.waits[by_lane[lane][done[lane]]]
                    if not any(other == mine and count > position for other, count in waits):
                        return False
        return True

    def _disturbing(self, role: int, node: int, coupled: Classes) -> tuple[int, ...] | None:
        """The other lanes of these rank classes with ops that load what the call loads; None where other ranks' do, or
        where those that end first may load what the rest of the call still does."""
        load = self.loads.of(self._block(role, node), coupled)
        if load & self.loads.of_others(coupled) or not self._ends_clear(role, node, coupled):
            return None
        program = self.parts[role].program
        return tuple(
            lane
            for lane, name in enumerate(program.lanes)
            if name != LANE and load & self.loads.of_lane(role, lane, coupled)
        )

    def _ends_clear(self, role: int, node: int, coupled: Classes) -> bool:
        """Whether rank classes that end a call before others of it can do nothing that disturbs these."""
        if len(coupled) == 1:
            return True
        block, alone = self._block(role, node), self._alone(role, node, coupled)
        for end_s, _ in alone.ends:
            left = tuple([cls for cls in coupled if alone.times[cls].end[-1] > end_s + INSTANT_S])
            late = [any(alone.times[cls].end[at] > end_s for cls in left) for at in range(len(block))]
            if self.loads.of(compress(block, late), left) & self.loads.of_others(left):
                return False
        return True

    # ── ending ──

    def _finish(self, ended: list[tuple[Ending, int]]) -> None:
        now = self.env.now
        touched: dict[int, None] = {}
        scripted: dict[int, None] = {}
        for (key, members), _ in ended:
            if isinstance(key, tuple):
                for cls in members:
                    self.scripts[cls].end[key[1]] = now
                    self.scripts[cls].issuer.finish(key[1])
                    scripted[cls] = None
                continue
            for cls in members:
                self._end(cls, -1 - key if key < 0 else self._node(key, cls))
                touched[cls] = None
        for cls in sorted(scripted):
            script = self.scripts[cls]
            if not script.issuer.is_finished:
                self._next(cls)
                continue
            del self.scripts[cls]
            ready, start, end = (np.array(table, float) for table in (script.ready, script.start, script.end))
            self.times_by_class[self.role_of[cls]][cls, script.node] = CallTimes(ready=ready, start=start, end=end)
            self._end(cls, script.node)
            touched[cls] = None
        self._start_all(sorted(touched))

    def _end(self, cls: int, node: int) -> None:
        self.end[cls][node] = self.env.now
        self.issuers[cls].finish(node)
        key = self.keys[self.role_of[cls]][node]
        self.order.pop(key, None)
        self.order[key] = None

    # ── rates ──

    def _go_on(self) -> None:
        if self.running != self.rated or self.env.now >= self.due:  # else the timer that is set still holds
            self.rated = list(self.running)
            super()._go_on()

    def _set_rates(self) -> None:
        """Flows that share no link, directly or through others, are independent: each set of flows that do share
        is solved by itself, when one of it ends or another joins it."""
        alive, loose, added, kept = set(self.running), [], 0, []
        for flow in self.running:
            if not flow.rate:
                loose.append(flow)
                added |= self.context.load(flow.flow)
        for load, flows in self.sets:
            if load & added or not alive.issuperset(flows):
                loose += [flow for flow in flows if flow in alive]
            else:
                kept.append((load, flows))
        joined: list[tuple[int, list[RunningFlow]]] = []
        for flow in loose:
            load, sharing, apart = self.context.load(flow.flow), [flow], []
            for other, flows in joined:
                if other & load:
                    load |= other
                    sharing += flows
                else:
                    apart.append((other, flows))
            joined = [*apart, (load, sharing)]
        for _, flows in joined:
            self._rate(flows)
        self.sets = kept + joined
