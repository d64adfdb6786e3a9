"""Breakdown of a step's time on its critical rank: kernels, communication that they do not hide, by level, and the
rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import fsum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simfrontier.answers.step.critical import PathLevel, level_of
from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.engine import LEVELS, SimulatedStep
from simfrontier.core.program import PAUSE, Compute, Op

SLOWED = "slowed"  # kind of the time by which kernels are longer than alone
IDLE = "idle"  # kind of the time in which the rank does nothing
_LEAST = 1e-12  # of a step: a part that is shorter is a difference by rounding

Spent = Literal["compute", "inter_node", "intra_node", "package", "codec", "idle"]
_ORDER: tuple[Spent, ...] = ("compute", *LEVELS, "codec")  # a moment belongs to the first of these that is active
KERNELS_FIRST: tuple[Spent, ...] = ("compute", "codec", *LEVELS)  # or, where work on any lane hides communication


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Seconds of the critical rank's step; they sum to the step.

    `compute`: a kernel of the compute lane runs. Otherwise the time belongs to the coarsest collective that the rank is
    in or waits in, or exchange that it is in, else to local work of another lane (`codec`: encoding, decoding,
    reordering), else to nothing (`idle`): so also the bubble of a pipeline, the time in which a rank waits for other
    stages.
    """

    compute: float
    inter_node: float
    intra_node: float
    package: float
    codec: float
    idle: float

    @property
    def exposed_comm(self) -> float:
        """All that is not compute."""
        return self.inter_node + self.intra_node + self.package + self.codec + self.idle


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePart:
    """Time of a step spent on one kind of op, over the same axes and across the same boundary; `level` is `device` for
    work of a rank by itself. `spent`: the field of `Exposure` that it is a part of: kernels, or what they do not hide;
    `calls`: ops that have any of it.

    Kernels count with the time that they take alone. By how much longer they are, as what runs beside them takes
    memory and compute units, is one part of kind `slowed`: so plans with the same kernels have the same in all others.
    """

    spent: Spent
    kind: str
    axes: tuple[str, ...]
    level: PathLevel
    seconds: float
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpent:
    """Breakdown of a step of `step_s` seconds, the largest part first; the seconds of all parts sum to `step_s`."""

    parts: tuple[TimePart, ...]
    step_s: float

    @property
    def compute_s(self) -> float:
        """Seconds in which kernels of the compute lane run, those included by which they are slowed."""
        return fsum(part.seconds for part in self.parts if part.spent == "compute")


def exposure(step: SimulatedStep, order: tuple[Spent, ...] = _ORDER) -> Exposure:
    """Sweep the critical rank's spans and give every moment to the first of the kinds in `order` that is active."""
    sweep = _Sweep(step)
    seconds = {spent: float(sweep.lengths[active].sum()) for spent, _, active in sweep.in_order(order)}
    return Exposure(**seconds, idle=float(sweep.lengths[~sweep.taken].sum()))


def time_spent(step: SimulatedStep) -> TimeSpent:
    """The same as `exposure`, by kind of op, axes and level. Of several calls at once across the same boundary a moment
    belongs to the one that began first."""
    sweep = _Sweep(step)
    found: list[TimePart] = []
    for spent, mine, active in sweep.in_order():
        if spent == "compute":
            found += _kernels(step, mine, float(sweep.lengths[active].sum()))
        else:
            found += _parts(step, spent, mine, sweep.seconds_of_each(mine, active))
    idle_s = float(sweep.lengths[~sweep.taken].sum())
    if idle_s > _LEAST * step.step_s:
        found.append(TimePart(spent="idle", kind=IDLE, axes=(), level="device", seconds=idle_s, calls=0))
    parts = sorted(found, key=lambda part: (-part.seconds, part.spent, part.kind, part.axes, part.level))
    return TimeSpent(parts=tuple(parts), step_s=step.step_s)


class _Sweep:
    """The spans of the critical rank, and the moments between any two of their beginnings and ends: how long each is,
    and which are taken already."""

    def __init__(self, step: SimulatedStep) -> None:
        row, is_shared = step.critical_row, step.pricing.role_assignment.is_shared
        ops, known = step.ops, dict[int, int]()
        self.kinds = np.empty(len(ops), np.int64)
        waits = np.zeros(len(ops), bool)
        for index, op in enumerate(ops):
            if op.number not in known:
                known[op.number] = _place(op, step)
            self.kinds[index] = known[op.number]
            waits[index] = not isinstance(op, Compute) and not is_shared(op)
        self.begin = np.where(waits, step.timeline.ready[row], step.timeline.start[row])
        self.end = step.timeline.end[row]
        self.times = np.unique(np.concatenate([[0.0, step.step_s], self.begin, self.end]))
        self.taken = np.zeros(len(self.times), bool)
        self.lengths: Floats = np.diff(self.times, append=self.times[-1])

    def in_order(self, order: tuple[Spent, ...] = _ORDER) -> Iterator[tuple[Spent, Ints, NDArray[np.bool_]]]:
        """Yield what a moment may be spent on, its ops, and the moments that it takes; these are taken then."""
        for spent in order:
            mine = np.flatnonzero(self.kinds == _ORDER.index(spent))
            change = np.bincount(np.searchsorted(self.times, self.begin[mine]), minlength=len(self.times))
            change -= np.bincount(np.searchsorted(self.times, self.end[mine]), minlength=len(self.times))
            active = (np.cumsum(change) > 0) & ~self.taken
            self.taken |= active
            yield spent, mine, active

    def seconds_of_each(self, mine: Ints, active: NDArray[np.bool_]) -> Floats:
        """Divide the moments that some ops take among them: each to the one that began first."""
        seconds = np.zeros(len(mine))
        order = np.lexsort((mine, self.begin[mine]))
        begin, end = self.begin[mine][order], self.end[mine][order]
        ended = np.maximum.accumulate(np.concatenate([[0.0], end]))[:-1]  # all that began before
        so_far = np.concatenate([[0.0], np.cumsum(np.where(active, self.lengths, 0.0))])
        since = so_far[np.searchsorted(self.times, np.minimum(np.maximum(begin, ended), end))]
        seconds[order] = so_far[np.searchsorted(self.times, end)] - since
        return seconds


def _place(op: Op, step: SimulatedStep) -> int:
    """Return the place of the op's time in the order; behind all, ops of the host, and pauses: nothing is
    spent on these."""
    if isinstance(op, Compute):
        if op.kind == PAUSE.name:
            return len(_ORDER)
        return {"compute": 0, "host": len(_ORDER)}.get(op.lane, len(_ORDER) - 1)
    return _ORDER.index(step.level(op))


def _kernels(step: SimulatedStep, mine: Ints, whole_s: float) -> Iterator[TimePart]:
    """Yield the parts of kernels that take `whole_s` together: what they take alone, by kind, and the rest."""
    pricing, alone = step.pricing, dict[int, float]()
    seconds: dict[str, list[float]] = {}
    longer = step.times_as_long
    for index in mine.tolist():
        op = step.ops[index]
        if op.number not in alone:
            alone[op.number] = pricing.work_of(op, step.critical).alone_s
        seconds.setdefault(op.kind, []).append(alone[op.number] * (1.0 if longer is None else longer[index]))
    for kind, each in seconds.items():
        yield TimePart(spent="compute", kind=kind, axes=(), level="device", seconds=fsum(each), calls=len(each))
    slowed_s = whole_s - fsum(one for each in seconds.values() for one in each)
    if abs(slowed_s) > _LEAST * step.step_s:
        yield TimePart(spent="compute", kind=SLOWED, axes=(), level="device", seconds=slowed_s, calls=0)


def _parts(step: SimulatedStep, spent: Spent, mine: Ints, seconds: Floats) -> Iterator[TimePart]:
    groups: dict[tuple[str, tuple[str, ...], PathLevel], list[float]] = {}
    known: dict[int, tuple[tuple[str, ...], PathLevel]] = {}
    least = _LEAST * step.step_s
    for index, each in zip(mine.tolist(), seconds.tolist(), strict=True):
        if each > least:
            op = step.ops[index]
            if op.number not in known:
                known[op.number] = level_of(op, step)
            groups.setdefault((op.kind, *known[op.number]), []).append(each)
    for (kind, axes, level), all_of_it in groups.items():
        yield TimePart(spent=spent, kind=kind, axes=axes, level=level, seconds=fsum(all_of_it), calls=len(all_of_it))
