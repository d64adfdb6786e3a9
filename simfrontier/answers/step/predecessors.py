"""Predecessors: what an op of a simulated step waited for, on its own rank class and on those that it met there."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simfrontier.core.cost import OpWork
from simfrontier.core.engine import RoleTimeline, SimulatedStep, lasting
from simfrontier.core.program import Call, Compute, Op, Role, Segment, expand


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
    """A role's nodes, with what each waits for and when it ran."""

    def __init__(self, role_timeline: RoleTimeline) -> None:
        self.role_timeline, self.times = role_timeline, role_timeline.timeline
        self.program, self.blocks = role_timeline.segmented.program, role_timeline.segmented.blocks
        self.before = self.program.before
        self.row = {cls: row for row, cls in enumerate(role_timeline.classes)}


class Predecessors:
    """Predecessors of the ops of a simulated step. Roles are looked at when a place of theirs is asked for, in the
    nodes in which they were simulated, so that a walk through a long program costs what it visits."""

    def __init__(self, step: SimulatedStep) -> None:
        self.step, self.pricing = step, step.pricing
        self._roles: dict[int, _Role] = {}
        self._inner: dict[Segment, list[list[int]]] = {}
        self._groups: dict[str, tuple[list[int], list[tuple[int, ...]]]] = {}
        self._role_of: list[int] = step.pricing.role_of.tolist()

    # ── places ──

    def last(self, cls: int) -> OpOnClass:
        """The op that ends last on a rank class; of equals the last in its program."""
        number = self._role_of[cls]
        role = self._role(number)
        ends = role.times.end[role.row[cls]]
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
            times = role.times
            return OpTimes(float(times.ready[at]), float(times.start[at]), float(times.end[at]))
        since, inside = role.role_timeline.call_times(place.cls, place.node)
        ready, start, end = inside.ready[place.inner], inside.start[place.inner], inside.end[place.inner]
        return OpTimes(since + float(ready), since + float(start), since + float(end))

    def work(self, place: OpOnClass) -> OpWork:
        """Return what the op asks of the machine, on the class of ranks at that place."""
        work = self.pricing.work_of(self.op(place), place.cls)
        if self.step.call_factors is None:
            return work
        row = self._role(place.role).row[place.cls]
        return lasting(work, float(self.step.call_factors[place.role][row, place.node]))

    # ── who waited for whom ──

    def met(self, place: OpOnClass) -> list[OpOnClass]:
        """The op on all rank classes that take part in it together, this one first; work of a rank by itself meets
        nobody."""
        op = self.op(place)
        if isinstance(op, Compute):
            return [place]
        of, members = self._group(self.pricing.of(op).pattern)
        others = [cls for cls in members[of[place.cls]] if cls != place.cls]
        if not self.pricing.role_assignment.is_shared(op):
            return [place, *(OpOnClass(place.role, cls, place.node, place.inner) for cls in others)]
        key = self.step.nodes.keys[place.role][place.node]
        roles = [(self._role_of[cls], cls) for cls in others]
        return [place, *(OpOnClass(role, cls, self.step.nodes.node(key, role)) for role, cls in roles)]

    def before(self, place: OpOnClass) -> list[OpOnClass]:
        """Return what the op had to wait for on its own rank class, the op before it in its lane first."""
        role = self._role(place.role)
        if place.inner is not None:
            inner = self._before_inside(role, place)[place.inner]
            if inner:
                return [OpOnClass(place.role, place.cls, place.node, other) for other in inner]
        return [self._end_of(place.role, place.cls, node) for node in role.before[place.node]]

    # ── what is looked up once ──

    def _role(self, number: int) -> _Role:
        if number not in self._roles:
            self._roles[number] = _Role(self.step.roles[number])
        return self._roles[number]

    def _group(self, pattern: str) -> tuple[list[int], list[tuple[int, ...]]]:
        """The activity class of each rank class on a pattern, and the rank classes of each."""
        if pattern not in self._groups:
            folding = self.pricing.folding
            members = [tuple(sorted(each)) for each in folding.members(pattern)]
            self._groups[pattern] = folding.activity_of(pattern).tolist(), members
        return self._groups[pattern]

    def _end_of(self, number: int, cls: int, node: int) -> OpOnClass:
        """The op with which a node ends on a rank class: of a call the one that ends last."""
        role = self._role(number)
        if role.blocks[node] is None:
            return OpOnClass(number, cls, node)
        ends: NDArray[np.float64] = role.role_timeline.call_times(cls, node)[1].end
        return OpOnClass(number, cls, node, int(len(ends) - 1 - np.argmax(ends[::-1])))

    def _before_inside(self, role: _Role, place: OpOnClass) -> list[list[int]]:
        """Return what the ops of a call wait for inside it; the same wherever the call stands."""
        part = role.role_timeline.segmented
        segment = part.segment(place.node)
        if segment not in self._inner:
            mine = self.step.schedule.roles[place.role]
            only = Role(mine.name, (replace(self.call(place), ops=part.block(place.node)),), mine.at)
            self._inner[segment] = expand(self.step.schedule, only).before
        return self._inner[segment]
