"""Predecessors: what an op of a simulated step waited for, on its own rank class and on those that it met there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfrontier.cost import OpWork
from simfrontier.schedule import Call, Compute, ExpandedProgram, Op, Role, Sequence, expand, sequence_of
from simfrontier.simulation import RoleTimeline, SimulatedStep, Timeline, earlier

Block = tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class OpOnClass:
    """One op on one rank class: the role that the class runs, a node of its program, and, where the node stands for a
    call, the number of the op in it."""

    role: int
    cls: int
    node: int
    inner: int | None = None


@dataclass(frozen=True, slots=True)
class OpTimes:
    """When a rank class was ready for an op, when all that it met there were and it started, and when it ended."""

    ready_s: float
    start_s: float
    end_s: float


class _Role:
    """A role's program in nodes, with what each node waits for and when it ran."""

    def __init__(
        self, program: ExpandedProgram, timeline: Timeline, classes: tuple[int, ...], role_timeline: RoleTimeline | None
    ) -> None:
        self.program, self.role_timeline = program, role_timeline
        self.blocks: list[Block | None] = (
            [None] * program.num_ops if role_timeline is None else role_timeline.segmented.blocks
        )
        self.before = earlier(program)
        self.row = {cls: row for row, cls in enumerate(classes)}
        self.ready, self.start, self.end = timeline.ready, timeline.start, timeline.end
        self._known: tuple[dict[Sequence, list[int]], dict[int, int]] | None = None

    def calls_of(self, sequence: Sequence) -> list[int]:
        """Its nodes that are calls of a sequence, in their order."""
        return self._sequences[0].get(sequence, [])

    def number_of(self, node: int) -> int:
        """Which call of its sequence a node is."""
        return self._sequences[1][node]

    @property
    def _sequences(self) -> tuple[dict[Sequence, list[int]], dict[int, int]]:
        if self._known is None:
            nodes: defaultdict[Sequence, list[int]] = defaultdict(list)
            number: dict[int, int] = {}
            for node, op in enumerate(self.program.ops):
                if not isinstance(op, Compute):
                    mine = nodes[sequence_of(op)]
                    number[node] = len(mine)
                    mine.append(node)
            self._known = dict(nodes), number
        return self._known


class Predecessors:
    """Of a simulated step of one role or several. Roles are looked at when a place of theirs is asked for, in the nodes
    in which they were simulated, so that a walk through a long program costs what it visits."""

    def __init__(self, step: SimulatedStep) -> None:
        self.step, self.cluster = step, step.cluster
        self._roles: dict[int, _Role] = {}
        self._inner: dict[int, list[list[int]]] = {}
        self._groups: dict[str, tuple[list[int], list[tuple[int, ...]]]] = {}
        self._role_of: list[int] = step.cluster.role_of.tolist()

    # ── places ──

    def last(self, cls: int) -> OpOnClass:
        """The op that ends last on a rank class; of equals the last in its program."""
        number = self._role_of[cls]
        role = self._role(number)
        ends = role.end[role.row[cls]]
        return self._end_of(number, cls, int(len(ends) - 1 - np.argmax(ends[::-1])))

    def op(self, place: OpOnClass) -> Op:
        role = self._role(place.role)
        block = role.blocks[place.node]
        return role.program.ops[place.node] if block is None or place.inner is None else block[place.inner]

    def call(self, place: OpOnClass) -> Call:
        """The call that the op is of: its label, layer and micro-batch."""
        return self._role(place.role).program.calls[place.node]

    def role_name(self, place: OpOnClass) -> str:
        return self.step.schedule.roles[place.role].name

    def times(self, place: OpOnClass) -> OpTimes:
        role = self._role(place.role)
        if place.inner is None:
            at = role.row[place.cls], place.node
            return OpTimes(float(role.ready[at]), float(role.start[at]), float(role.end[at]))
        assert role.role_timeline is not None, "only roles that were simulated have calls as nodes"
        since, inside = role.role_timeline.call_times(place.cls, place.node)
        ready, start, end = inside.ready[place.inner], inside.start[place.inner], inside.end[place.inner]
        return OpTimes(since + float(ready), since + float(start), since + float(end))

    def work(self, place: OpOnClass) -> OpWork:
        """What the op asks of the machine, on the class of ranks at that place."""
        priced = self.cluster.of(self.op(place))
        return priced.works[self._group(priced.pattern)[0][place.cls]]

    # ── who waited for whom ──

    def met(self, place: OpOnClass) -> list[OpOnClass]:
        """The op on all rank classes that take part in it together, this one first; work of a rank by itself meets
        nobody."""
        op = self.op(place)
        if isinstance(op, Compute):
            return [place]
        of, members = self._group(self.cluster.of(op).pattern)
        others = [cls for cls in members[of[place.cls]] if cls != place.cls]
        if not self.cluster.role_assignment.is_shared(op):
            return [place, *(OpOnClass(place.role, cls, place.node, place.inner) for cls in others)]
        number = self._role(place.role).number_of(place.node)
        places = [place]
        for cls in others:
            role = self._role_of[cls]
            places.append(OpOnClass(role, cls, self._role(role).calls_of(sequence_of(op))[number]))
        return places

    def before(self, place: OpOnClass) -> list[OpOnClass]:
        """What the op had to wait for on its own rank class, the op before it in its lane first."""
        role = self._role(place.role)
        if place.inner is not None:
            inner = self._before_inside(role, place)[place.inner]
            if inner:
                return [OpOnClass(place.role, place.cls, place.node, other) for other in inner]
        return [self._end_of(place.role, place.cls, node) for node in role.before[place.node]]

    # ── what is looked up once ──

    def _role(self, number: int) -> _Role:
        if number not in self._roles:
            step = self.step
            if step.role_timelines is None:
                self._roles[number] = _Role(step.program, step.timeline, step.classes, None)
            else:
                role_timeline = step.role_timelines.by_role[number]
                self._roles[number] = _Role(
                    role_timeline.segmented.program, role_timeline.timeline, role_timeline.classes, role_timeline
                )
        return self._roles[number]

    def _group(self, pattern: str) -> tuple[list[int], list[tuple[int, ...]]]:
        """The activity class of each rank class on a pattern, and the rank classes of each."""
        if pattern not in self._groups:
            folding = self.cluster.folding
            members = [tuple(sorted(each)) for each in folding.members(pattern)]
            self._groups[pattern] = folding.activity_of(pattern).tolist(), members
        return self._groups[pattern]

    def _end_of(self, number: int, cls: int, node: int) -> OpOnClass:
        """The op with which a node ends on a rank class: of a call the one that ends last."""
        role = self._role(number)
        if role.blocks[node] is None:
            return OpOnClass(number, cls, node)
        assert role.role_timeline is not None, "only roles that were simulated have calls as nodes"
        ends: NDArray[np.float64] = role.role_timeline.call_times(cls, node)[1].end
        return OpOnClass(number, cls, node, int(len(ends) - 1 - np.argmax(ends[::-1])))

    def _before_inside(self, role: _Role, place: OpOnClass) -> list[list[int]]:
        """What the ops of a call wait for inside it; the same wherever the call stands."""
        block = role.blocks[place.node]
        assert block is not None, f"node {place.node} is an op, not a call"
        call = self.call(place)
        if call.block not in self._inner:
            mine = self.step.schedule.roles[place.role]
            only = Role(mine.name, (Call(call.label, call.layer, call.micro, block, call.block),), mine.at)
            self._inner[call.block] = earlier(expand(self.step.schedule, only))
        return self._inner[call.block]
