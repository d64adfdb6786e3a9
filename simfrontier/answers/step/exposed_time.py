"""Breakdown of a step's time on its critical rank into kernels, exposed communication by level, and the rest; and the
difference between two steps by these parts, also as a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simfrontier.answers.step.critical import WAIT, PathLevel, level_of
from simfrontier.base.arrays import Floats, Ints
from simfrontier.base.units import listed, written
from simfrontier.core.engine import LEVELS, SimulatedStep
from simfrontier.core.program import HOST, KINDS, PAUSE, Compute, Op

SLOWED = "slowed"  # kind of the time by which kernels are longer than alone
IDLE = "idle"  # kind of the time in which the rank does nothing
_LEAST = 1e-12  # of a step: a part that is shorter is a difference by rounding

Spent = Literal["compute", "inter_node", "intra_node", "package", "codec", "host", "idle"]
# A moment belongs to the first of these that is active; or, where work on any lane hides communication, of the second.
_ORDER: tuple[Spent, ...] = ("compute", *LEVELS, "codec", "host")
KERNELS_FIRST: tuple[Spent, ...] = ("compute", "codec", *LEVELS, "host")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Breakdown in seconds of the critical rank's step; the fields sum to the step time.

    `compute`: a kernel of the compute lane runs. Otherwise the time is attributed to the coarsest collective that the
    rank executes or waits in, or the exchange that it executes; else to local work of another lane (`codec`: encoding,
    decoding, reordering, and copies to the host and back); else to the code of the `host`; else to `idle`, which
    includes the pipeline bubble, in which a rank waits for other stages.
    """

    compute: float
    inter_node: float
    intra_node: float
    package: float
    codec: float
    host: float
    idle: float


PartKey = tuple[Spent, str, tuple[str, ...], PathLevel]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPart:
    """One kind of op of a step over the same mesh axes and across the same boundary; `level` is `device` for local work
    of a rank. `spent`: the field of `Exposure` that this part belongs to (kernels or exposed time).
    """

    spent: Spent
    kind: str
    axes: tuple[str, ...]
    level: PathLevel

    @property
    def key(self) -> PartKey:
        """Fields that tell a part of a step from the others."""
        return self.spent, self.kind, self.axes, self.level

    @property
    def words(self) -> str:
        """The part in plain words."""
        return part_words(*self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePart(StepPart):
    """Time of a part of a step; `calls`: number of ops that contribute to it.

    Kernels count with their duration without contention. Their additional time while concurrent ops use memory
    bandwidth and compute units is one part of kind `slowed`, so that plans with the same kernels agree in all other
    kernel parts.
    """

    seconds: float
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpent:
    """Breakdown of a step of `step_s` seconds, the largest part first; the seconds of all parts sum to `step_s`."""

    parts: tuple[TimePart, ...]
    step_s: float

    @property
    def compute_s(self) -> float:
        """Seconds in which kernels of the compute lane run, including their slowdown by contention."""
        return fsum(part.seconds for part in self.parts if part.spent == "compute")


def exposure(step: SimulatedStep, order: tuple[Spent, ...] = _ORDER) -> Exposure:
    """Attribute every moment of the critical rank to the first kind in `order` that is active, and return the sums."""
    sweep = _Sweep(step)
    seconds = {spent: float(sweep.lengths[active].sum()) for spent, _, active in sweep.in_order(order)}
    return Exposure(**seconds, idle=float(sweep.lengths[~sweep.taken].sum()))


def time_spent(step: SimulatedStep) -> TimeSpent:
    """Return the breakdown of `exposure` by kind of op, axes and level. If several calls across the same boundary are
    active, the moment is attributed to the one that began first.
    """
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
    parts = sorted(found, key=lambda part: (-part.seconds, part.key))
    return TimeSpent(parts=tuple(parts), step_s=step.step_s)


class _Sweep:
    """The spans of the critical rank, and the intervals between their start and end times: duration of each interval,
    and whether it is already attributed.
    """

    def __init__(self, step: SimulatedStep) -> None:
        row, is_shared = step.critical_row, step.pricing.role_assignment.is_shared
        numbers, index_of = np.unique(step.view(step.critical).numbers, return_inverse=True)
        ops = [step.schedule.ops[number] for number in numbers.tolist()]
        self.kinds = np.array([_place(op, step) for op in ops], np.int64)[index_of]
        waits = np.array([not isinstance(op, Compute) and not is_shared(op) for op in ops], bool)[index_of]
        self.begin = np.where(waits, step.timeline.ready[row], step.timeline.start[row])
        self.end = step.timeline.end[row]
        self.times = np.unique(np.concatenate([[0.0, step.step_s], self.begin, self.end]))
        self.taken = np.zeros(len(self.times), bool)
        self.lengths: Floats = np.diff(self.times, append=self.times[-1])

    def in_order(self, order: tuple[Spent, ...] = _ORDER) -> Iterator[tuple[Spent, Ints, NDArray[np.bool_]]]:
        """Yield each field of `Exposure` in order, its ops, and the intervals attributed to it; these are then no
        longer available.
        """
        for spent in order:
            mine = np.flatnonzero(self.kinds == _ORDER.index(spent))
            change = np.bincount(np.searchsorted(self.times, self.begin[mine]), minlength=len(self.times))
            change -= np.bincount(np.searchsorted(self.times, self.end[mine]), minlength=len(self.times))
            active = (np.cumsum(change) > 0) & ~self.taken
            self.taken |= active
            yield spent, mine, active

    def seconds_of_each(self, mine: Ints, active: NDArray[np.bool_]) -> Floats:
        """Divide the intervals among the active ops: each interval is attributed to the op that began first."""
        seconds = np.zeros(len(mine))
        order = np.lexsort((mine, self.begin[mine]))
        begin, end = self.begin[mine][order], self.end[mine][order]
        ended = np.maximum.accumulate(np.concatenate([[0.0], end]))[:-1]  # all that began before
        so_far = np.concatenate([[0.0], np.cumsum(np.where(active, self.lengths, 0.0))])
        since = so_far[np.searchsorted(self.times, np.minimum(np.maximum(begin, ended), end))]
        seconds[order] = so_far[np.searchsorted(self.times, end)] - since
        return seconds


def _place(op: Op, step: SimulatedStep) -> int:
    """Return the rank of the op in the order of attribution; pauses come last: no time is attributed to them."""
    if isinstance(op, Compute):
        if op.kind == PAUSE.name:
            return len(_ORDER)
        return _ORDER.index({"compute": "compute", HOST: "host"}.get(op.lane, "codec"))
    return _ORDER.index(step.level(op))


def _kernels(step: SimulatedStep, mine: Ints, whole_s: float) -> Iterator[TimePart]:
    """Yield the parts of kernels that take `whole_s` seconds together: durations without contention by kind, and the
    rest.
    """
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


MOST_TERMS = 3  # of a sentence, either way
NAMED_SHARE = 0.8  # of what is gained or lost is listed by name
LEAST = 0.05  # of the largest term, that is worth naming
SAME = 1e-3  # of a step: steps closer than this are as fast
EQUAL = 1e-9  # of a part: parts closer than this are equal
LEVEL_WORDS: dict[PathLevel, str] = {
    "inter_node": "between nodes",
    "intra_node": "inside a node",
    "package": "inside a package",
    "device": "on the device",
}
_WORDS = {
    SLOWED: "compute slowed by overlapping communication",
    IDLE: "idle time",
    WAIT: "waits that no op explains",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDifference(StepPart):
    """One part of the time of two steps: seconds in the first and in the second step, and the number of its ops in
    each.
    """

    a_s: float
    b_s: float
    a_calls: int
    b_calls: int

    @property
    def seconds(self) -> float:
        """Seconds in the first step minus seconds in the second step."""
        return self.a_s - self.b_s


def differences(a: TimeSpent, b: TimeSpent) -> tuple[PartDifference, ...]:
    """Return the parts of one step's time minus those of another step, the largest absolute difference first.

    A part that one of the steps lacks counts as 0 s, so that the seconds sum to the difference of the two steps.
    """
    ours, theirs = ({part.key: part for part in time.parts} for time in (a, b))
    made = []
    for key in dict.fromkeys((*ours, *theirs)):
        spent, kind, axes, level = key
        nothing = TimePart(spent=spent, kind=kind, axes=axes, level=level, seconds=0.0, calls=0)
        one, other = ours.get(key, nothing), theirs.get(key, nothing)
        made.append(
            PartDifference(
                spent=spent,
                kind=kind,
                axes=axes,
                level=level,
                a_s=one.seconds,
                b_s=other.seconds,
                a_calls=one.calls,
                b_calls=other.calls,
            )
        )
    return tuple(sorted(made, key=lambda each: (-abs(each.seconds), each.key)))


def why_faster(time_a: TimeSpent, time_b: TimeSpent, name_b: str) -> str:
    """Return one sentence, without a full stop: how much faster (or slower) a step is than that of `name_b`, and by
    which parts of its time, the largest first; and whether compute is equal.

    Example: `0.26 s slower than hsdp: 0.43 s more in exposed all-gathers over node × package × gcd (between nodes), for
    0.13 s less in exposed all-reduces over node (between nodes); compute is equal`.
    """
    difference_s = time_a.step_s - time_b.step_s
    parts = differences(time_a, time_b)
    less = [each for each in parts if each.seconds < 0.0]
    more = [each for each in parts if each.seconds > 0.0]
    if abs(difference_s) <= SAME * max(time_a.step_s, time_b.step_s):
        return f"as fast as {name_b}{_both_ways(less, more, time_b.step_s)}"
    if difference_s < 0.0:
        start, first, second = f"{_seconds(-difference_s)} faster than {name_b}", less, more
    else:
        start, first, second = f"{_seconds(difference_s)} slower than {name_b}", more, less
    largest = abs(first[0].seconds)
    against = [each for each in second if abs(each.seconds) >= LEAST * largest]
    text = f"{start}: {_terms(first)}"
    text = f"{text}, for {_terms(against)}" if against else text
    return f"{text}; compute is equal" if compute_equal(parts) else text


def compute_equal(parts: Sequence[PartDifference]) -> bool:
    """Return whether the kernels of both steps take equally long without contention."""
    kernels = [each for each in parts if each.spent == "compute" and each.kind != SLOWED]
    return bool(kernels) and all(is_equal(each) for each in kernels)


def is_equal(part: PartDifference) -> bool:
    """Return whether the part takes equally long in both steps, up to rounding."""
    return abs(part.seconds) <= EQUAL * max(part.a_s, part.b_s)


def part_words(spent: Spent, kind: str, axes: tuple[str, ...], level: PathLevel) -> str:
    """Return a part of a step's time in plain words: `exposed all-gathers over node × package × gcd (between nodes)`,
    `matrix products`."""
    words = op_words(kind, axes, level)
    return words if spent in ("compute", "host", "idle") else f"exposed {words}"


def op_words(kind: str, axes: tuple[str, ...], level: PathLevel) -> str:
    """Return ops in plain words: `all-gathers over node × package × gcd (between nodes)`, `matrix products`."""
    name = KINDS[kind].words if kind in KINDS else _WORDS.get(kind, kind)
    if level == "device":
        return name
    return f"{name} over {' × '.join(axes) or 'one rank'} ({LEVEL_WORDS[level]})"


def _both_ways(less: list[PartDifference], more: list[PartDifference], step_s: float) -> str:
    """Return, in words, the differences that cancel out between two equally long steps, if they are large enough."""
    worth = [[each for each in way if abs(each.seconds) >= 10 * SAME * step_s] for way in (less, more)]
    return f": {_terms(worth[0])}, for {_terms(worth[1])}" if all(worth) else ""


def _terms(path_differences: list[PartDifference]) -> str:
    """Return the largest differences, until they make up most of the sum."""
    total, given = fsum(abs(each.seconds) for each in path_differences), 0.0
    lines: list[str] = []
    for each in path_differences[:MOST_TERMS]:
        size = abs(each.seconds)
        if lines and (given >= NAMED_SHARE * total or size < LEAST * abs(path_differences[0].seconds)):
            break
        lines.append(f"{_seconds(size)} {_way(each)} in {each.words}")
        given += size
    return listed(lines)


def _way(each: PartDifference) -> str:
    return "less" if each.seconds < 0.0 else "more"


def _seconds(value: float) -> str:
    """Return seconds in words with two digits, whole from 10 on: 0.91 s, 38 ms, 117 s."""
    rounded = float(f"{value:.2g}")
    if rounded < 0.1:
        return written(rounded, "s")
    return f"{rounded:g} s" if rounded < 10.0 else f"{value:,.0f} s"
