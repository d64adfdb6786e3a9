"""The critical path of a simulated step: the chain of ops and waits, each of which started when the one before it
ended, that lasts exactly as long as the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Literal

from simfrontier.answers.step.predecessors import OpOnClass, Predecessors
from simfrontier.core.engine import Level, SimulatedStep
from simfrontier.core.program import Collective, Compute, Op

PathLevel = Literal["inter_node", "intra_node", "package", "device"]
WAIT = "wait"  # kind of a link in which nothing that the step knows of was waited for
_ROUNDING = 1e-12  # of the step: times closer than this are equal
_INSTANT_S = 1e-12  # as in the engine


@dataclass(frozen=True, slots=True, kw_only=True)
class PathLink:
    """One op on the critical path, from `start_s` to `end_s`, in seconds from the start of the step.

    `axes`: of a collective or exchange, those that it goes over (none of a kernel); `level`: the coarsest boundary that
    its messages cross, `device` for work of a rank by itself. `call`, `layer`, `micro`, `role`: where in the program it
    stands; `rank`: the lowest of the ranks that it stands for. `alone_s`: the time that it takes with nothing beside it
    (of a collective: with only the calls of its own kind that other groups make at once).
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
        """Time beyond what the op takes alone, because others use the same links, memory or compute units."""
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
    """`links` in the order of time, each beginning where the one before it ended, from 0 to `step_s`."""

    links: tuple[PathLink, ...]
    step_s: float

    def parts(self) -> tuple[PathPart, ...]:
        """The path by (kind, axes, level), the largest first; the seconds of all parts sum to `step_s`."""
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
    """The critical path of a step, of one role or several and at any fidelity.

    It is walked from the end: the op that ends last on the critical rank; whoever took part in it and was ready for it
    last; of what that rank had to wait for before, what ended last; and so on to the start of the step. Of equals the
    path stays where it is: on its rank, then on its lane. What lies between the end of what was waited for and the time
    at which a rank was ready is a link of kind `wait`; there is none as long as the simulation starts everything when
    it may. Where single messages are simulated (fidelity `chunk`) a collective counts from when all its ranks have
    issued it, though some have sent by then.
    """
    walk, step_s = Predecessors(step), step.step_s
    tolerance = max(_INSTANT_S, _ROUNDING * step_s)
    facts = _Facts(step)
    links: list[PathLink] = []
    place: OpOnClass | None = walk.last(step.critical) if step_s > 0.0 else None
    now = step_s
    while place is not None:
        start_s = min(now, walk.times(place).start_s)
        links.append(facts.link(walk, place, start_s, now))
        now = start_s
        met = walk.met(place)
        place = _latest(met, [walk.times(each).ready_s for each in met], tolerance)
        before = walk.before(place)
        previous = _latest(before, [walk.times(each).end_s for each in before], tolerance) if before else None
        end_s = 0.0 if previous is None else walk.times(previous).end_s
        if now - end_s > tolerance:
            links.append(facts.wait(walk, place, end_s, now))
            now = end_s
        place = previous
    if links and links[-1].start_s != 0.0:  # a difference by rounding
        links.append(replace(links.pop(), start_s=0.0))
    return CriticalPath(links=tuple(reversed(links)), step_s=step_s)


def _latest(places: Sequence[OpOnClass], seconds: Sequence[float], tolerance: float) -> OpOnClass:
    """The first of those whose time is the latest, but for rounding."""
    most = max(seconds)
    return next(place for place, at in zip(places, seconds, strict=True) if at >= most - tolerance)


class _Facts:
    """Attributes of a path's links, looked up once for each op."""

    def __init__(self, step: SimulatedStep) -> None:
        self.step = step
        self.first_rank: list[int] = step.pricing.folding.representative.tolist()
        self.levels: dict[int, tuple[tuple[str, ...], PathLevel]] = {}

    def link(self, walk: Predecessors, place: OpOnClass, start_s: float, end_s: float) -> PathLink:
        op, call = walk.op(place), walk.call(place)
        axes, level = self._level(op)
        return PathLink(
            name=op.name,
            kind=op.kind,
            axes=axes,
            level=level,
            lane=op.lane,
            call=call.label,
            layer=call.layer,
            micro=call.micro,
            role=walk.role_name(place),
            rank=self.first_rank[place.cls],
            start_s=start_s,
            end_s=end_s,
            alone_s=walk.work(place).alone_s,
        )

    def wait(self, walk: Predecessors, place: OpOnClass, start_s: float, end_s: float) -> PathLink:
        """Time in which a rank waits for what no op says."""
        link = self.link(walk, place, start_s, end_s)
        return replace(link, kind=WAIT, axes=(), level="device", alone_s=0.0)

    def _level(self, op: Op) -> tuple[tuple[str, ...], PathLevel]:
        if op.number not in self.levels:
            self.levels[op.number] = level_of(op, self.step)
        return self.levels[op.number]


def level_of(op: Op, step: SimulatedStep) -> tuple[tuple[str, ...], PathLevel]:
    """The axes that an op goes over, and the coarsest boundary that its messages cross."""
    if isinstance(op, Compute):
        return (), "device"
    level: Level = step.level(op)
    return (step.schedule.mesh.live(op.axes) if isinstance(op, Collective) else (op.axis,)), level
