"""The critical path of a simulated step: the chain of ops and waits, each of which started when the one before it
ended, that lasts exactly as long as the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simfrontier.core.cost import OpWork
from simfrontier.core.engine import Level, RoleTimeline, SimulatedStep, lasting
from simfrontier.core.program import Call, Collective, Compute, Op, Role, Segment, expand


@dataclass(frozen=True, slots=True)
class OpOnClass:
    """An op of a rank class: the role that the class executes, a node of the role's program, and, if the node stands
    for a whole call, the index of the op inside the call.
    """

    role: int
    cls: int
    node: int
    inner: int | None = None


@dataclass(frozen=True, slots=True)
class OpTimes:
    """Times in seconds at which a rank class was ready for an op, at which the op started (when all participants were
    ready), and at which it ended.
    """

    ready_s: float
    start_s: float
    end_s: float


class _Role:
    """The program nodes of a role, with the predecessors and the simulated times of each node."""

    def __init__(self, role_timeline: RoleTimeline) -> None:
        self.role_timeline, self.times = role_timeline, role_timeline.timeline
        self.program, self.blocks = role_timeline.segmented.program, role_timeline.segmented.blocks
        self.before = self.program.before
        self.row = {cls: row for row, cls in enumerate(role_timeline.classes)}


class Predecessors:
    """Predecessors of the ops of a simulated step. A role is expanded only when one of its ops is asked for, in the
    nodes in which it was simulated, so that following a path through a long program costs only the ops that it visits.
    """

    def __init__(self, step: SimulatedStep) -> None:
        self.step, self.pricing = step, step.pricing
        self._roles: dict[int, _Role] = {}
        self._inner: dict[Segment, list[list[int]]] = {}
        self._groups: dict[str, tuple[list[int], list[tuple[int, ...]]]] = {}
        self._role_of: list[int] = step.pricing.role_of.tolist()
        self.levels: dict[int, tuple[tuple[str, ...], PathLevel]] = {}  # axes and level by number of the op

    # ── places ──

    def last(self, cls: int) -> OpOnClass:
        """Return the op that ends last on a rank class; of ops that end together, the last in its program."""
        number = self._role_of[cls]
        role = self._role(number)
        ends = role.times.end[role.row[cls]]
        return self._end_of(number, cls, int(len(ends) - 1 - np.argmax(ends[::-1])))

    def op(self, place: OpOnClass) -> Op:
        role = self._role(place.role)
        block = role.blocks[place.node]
        return role.program.ops[place.node] if block is None or place.inner is None else block[place.inner]

    def call(self, place: OpOnClass) -> Call:
        """Return the program call that the op belongs to: its label, layer and micro-batch."""
        return self._role(place.role).program.calls[place.node]

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
        """Return the work of the op (what it demands of the machine) on its rank class."""
        work = self.pricing.work_of(self.op(place), place.cls)
        if self.step.call_factors is None:
            return work
        row = self._role(place.role).row[place.cls]
        return lasting(work, float(self.step.call_factors[place.role][row, place.node]))

    # ── who waited for whom ──

    def met(self, place: OpOnClass) -> list[OpOnClass]:
        """Return the op on all rank classes that take part in it together, beginning with the given one; local work has
        no other participants.
        """
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
        """Return the ops that the op had to wait for on its own rank class, beginning with the preceding op of its
        lane.
        """
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
        """Return the activity class of each rank class in a pattern, and the rank classes of each activity class."""
        if pattern not in self._groups:
            folding = self.pricing.folding
            members = [tuple(sorted(each)) for each in folding.members(pattern)]
            self._groups[pattern] = folding.activity_of(pattern).tolist(), members
        return self._groups[pattern]

    def _end_of(self, number: int, cls: int, node: int) -> OpOnClass:
        """Return the op with which a node ends on a rank class; if the node is a whole call, its op that ends last."""
        role = self._role(number)
        if role.blocks[node] is None:
            return OpOnClass(number, cls, node)
        ends: NDArray[np.float64] = role.role_timeline.call_times(cls, node)[1].end
        return OpOnClass(number, cls, node, int(len(ends) - 1 - np.argmax(ends[::-1])))

    def _before_inside(self, role: _Role, place: OpOnClass) -> list[list[int]]:
        """Return, for each op of a call, its predecessors inside the call; these are the same wherever
        the call occurs.
        """
        part = role.role_timeline.segmented
        segment = part.segment(place.node)
        if segment not in self._inner:
            mine = self.step.schedule.roles[place.role]
            only = Role(mine.name, (replace(self.call(place), ops=part.block(place.node)),), mine.at)
            self._inner[segment] = expand(self.step.schedule, only).before
        return self._inner[segment]


PathLevel = Literal["inter_node", "intra_node", "package", "device"]
WAIT = "wait"  # kind of a link in which nothing that the step knows of was waited for
_ROUNDING = 1e-12  # of the step: times closer than this are equal
_INSTANT_S = 1e-12  # as in the engine


@dataclass(frozen=True, slots=True, kw_only=True)
class PathLink:
    """One op on the critical path, from `start_s` to `end_s`, in seconds from the start of the step.

    `axes`: mesh axes of a collective or exchange (none for a kernel); `level`: the coarsest boundary that its messages
    cross, `device` for work of a rank by itself. `call`, `layer`, `micro`, `role`: its position in the program; `rank`:
    the lowest of the ranks that it represents. `alone_s`: its duration without contention (of a collective: with only
    the calls of its own kind that other groups make at once).
    """

    name: str
    kind: str
    axes: tuple[str, ...]
    level: PathLevel
    lane: str
    call: str
    layer: int
    micro: int
    role: str
    rank: int
    start_s: float
    end_s: float
    alone_s: float

    @property
    def seconds(self) -> float:
        return self.end_s - self.start_s

    @property
    def sharing_s(self) -> float:
        """Time beyond the op's duration without contention, because others use the same links, memory or compute
        units."""
        beyond = self.seconds - self.alone_s
        return beyond if beyond > max(_INSTANT_S, _ROUNDING * self.end_s) and self.kind != WAIT else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPart:
    """All links of a critical path with the same kind, axes and level: seconds in all, those of them that are due to
    sharing, and how many links there are."""

    kind: str
    axes: tuple[str, ...]
    level: PathLevel
    seconds: float
    sharing_s: float
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalPath:
    """The critical path of a step: `links` in order of time, each starting where the preceding one ended, from 0 to
    `step_s`.
    """

    links: tuple[PathLink, ...]
    step_s: float

    def parts(self) -> tuple[PathPart, ...]:
        """Return the path by (kind, axes, level), the largest first; the seconds of all parts sum to `step_s`."""
        groups: dict[tuple[str, tuple[str, ...], PathLevel], list[PathLink]] = {}
        for link in self.links:
            groups.setdefault((link.kind, link.axes, link.level), []).append(link)
        made = [
            PathPart(
                kind=kind,
                axes=axes,
                level=level,
                seconds=fsum(link.seconds for link in mine),
                sharing_s=fsum(link.sharing_s for link in mine),
                calls=len(mine),
            )
            for (kind, axes, level), mine in groups.items()
        ]
        return tuple(sorted(made, key=lambda part: (-part.seconds, part.kind, part.axes, part.level)))


def critical_path(step: SimulatedStep) -> CriticalPath:
    """Return the critical path of a step with one or several roles, at any fidelity.

    The path is followed backwards: from the op that ends last on the critical rank, to the participant that was ready
    for it last, to the predecessor of that participant that ended last, and so on to the start of the step. Among
    equals the path stays on its rank, then on its lane. A gap between the end of a predecessor and the time at which
    the rank was ready becomes a link of kind `wait`; there is none if the simulation starts every op as soon as
    possible. If single messages are simulated (fidelity `chunk`), a collective counts from when all its ranks have
    issued it, although some have sent data before.
    """
    walk, step_s = Predecessors(step), step.step_s
    tolerance = max(_INSTANT_S, _ROUNDING * step_s)
    links: list[PathLink] = []
    place: OpOnClass | None = walk.last(step.critical) if step_s > 0.0 else None
    now = step_s
    while place is not None:
        start_s = min(now, walk.times(place).start_s)
        links.append(_link(walk, place, start_s, now))
        now = start_s
        met = walk.met(place)
        place = _latest(met, [walk.times(each).ready_s for each in met], tolerance)
        before = walk.before(place)
        previous = _latest(before, [walk.times(each).end_s for each in before], tolerance) if before else None
        end_s = 0.0 if previous is None else walk.times(previous).end_s
        if now - end_s > tolerance:
            link = _link(walk, place, end_s, now)
            links.append(replace(link, kind=WAIT, axes=(), level="device", alone_s=0.0))
            now = end_s
        place = previous
    if links and links[-1].start_s != 0.0:  # a difference by rounding
        links.append(replace(links.pop(), start_s=0.0))
    return CriticalPath(links=tuple(reversed(links)), step_s=step_s)


def _latest(places: Sequence[OpOnClass], seconds: Sequence[float], tolerance: float) -> OpOnClass:
    """Return the first of the ops whose time is the latest, within the tolerance for rounding."""
    most = max(seconds)
    return next(place for place, at in zip(places, seconds, strict=True) if at >= most - tolerance)


def _link(walk: Predecessors, place: OpOnClass, start_s: float, end_s: float) -> PathLink:
    """Return an op, on its rank class, as a link of the critical path."""
    op, call, step = walk.op(place), walk.call(place), walk.step
    if op.number not in walk.levels:
        walk.levels[op.number] = level_of(op, step)
    axes, level = walk.levels[op.number]
    return PathLink(
        name=op.name,
        kind=op.kind,
        axes=axes,
        level=level,
        lane=op.lane,
        call=call.label,
        layer=call.layer,
        micro=call.micro,
        role=step.schedule.roles[place.role].name,
        rank=int(step.pricing.folding.representative[place.cls]),
        start_s=start_s,
        end_s=end_s,
        alone_s=walk.work(place).alone_s,
    )


def level_of(op: Op, step: SimulatedStep) -> tuple[tuple[str, ...], PathLevel]:
    """Return the mesh axes over which an op communicates, and the coarsest boundary that its messages cross."""
    if isinstance(op, Compute):
        return (), "device"
    level: Level = step.level(op)
    return (step.schedule.mesh.live(op.axes) if isinstance(op, Collective) else (op.axis,)), level
