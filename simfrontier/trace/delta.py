"""Differences of simulated and real times by kind of call and by step, and whether the plans rank alike."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import Final, Literal

from simfrontier.records import dataclass
from simfrontier.trace.added_check import AddedCheck
from simfrontier.trace.comparison import Comparison, OpPair
from simfrontier.trace.table import Span, Trace

SAME: Final = 1e-9  # relative: step times closer than this are equal
Ranking = Literal["alike", "alike within noise", "differ", "one plan"]
_AXIS: Final = re.compile(r"\s*(\S+) (\d{1,9})\s*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """Calls that are alike: collectives by kind, name, axes and message size; local work by kind (the rest is empty).

    `calls` are those of one rank, the medians are over calls and ranks. `group_size` is 0 where the traces lack
    it. `ratio` is that of the medians, real over simulated; `apart` the median over calls of |real/sim - 1|; NaN where
    no time was simulated. `wait` is from a rank's readiness to that of its group.
    """

    kind: str
    name: str
    axes: str
    group_size: int
    message_bytes: float
    calls: int
    sim_s: float
    real_s: float
    ratio: float
    apart: float
    sim_wait_s: float
    real_wait_s: float
    real_total_s: float

    @property
    def is_collective(self) -> bool:
        return bool(self.axes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStepTimes:
    """A plan's step. The real one is the median over iterations if the trace notes it, `real_iqr_s` their
    interquartile range; None where it lacks them."""

    plan: str
    sim_s: float
    real_s: float
    real_iqr_s: float | None

    @property
    def ratio(self) -> float:
        return quotient(self.real_s, self.sim_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether simulation and reality agree, and why not.

    `judged` counts the collectives (calls × ranks) of at least `min_bytes`; `apart` is the median of their
    |real/sim - 1|, `ratio` that of real/sim; NaN where there are none. `swapped` are pairs of plans (as simulated:
    faster, slower) whose real order is the reverse, `close` those whose real step times are within their noise.
    """

    num_different: int
    min_bytes: float
    tolerance: float
    judged: int
    apart: float
    ratio: float
    ranking: Ranking
    swapped: tuple[tuple[str, str], ...]
    close: tuple[tuple[str, str], ...]

    @property
    def is_exact(self) -> bool:
        return self.num_different == 0

    @property
    def is_near(self) -> bool:
        """Whether the collectives' times agree; False where there is none to judge by."""
        return self.apart <= self.tolerance

    @property
    def agree(self) -> bool:
        return self.is_exact and self.is_near and self.ranking != "differ"


@dataclass(frozen=True, kw_only=True)
class CrossCheck:
    """Everything that was compared: a comparison per plan, the verdict, the plans that only one side has, and what
    extras compared besides."""

    comparisons: tuple[Comparison, ...]
    verdict: Verdict
    only_sim: tuple[str, ...] = ()
    only_real: tuple[str, ...] = ()
    added: tuple[AddedCheck, ...] = ()

    @property
    def agree(self) -> bool:
        """The verdict on operations and times, and on what extras compared."""
        return self.verdict.agree and not any(each.fault for each in self.added)


def deltas(comparison: Comparison) -> tuple[Delta, ...]:
    """Collectives, then local work; each by falling real time."""
    sizes = {**_mesh(comparison.real), **_mesh(comparison.sim)}
    alike: dict[tuple[str, str, str, float], list[OpPair]] = {}
    for pair in comparison.pairs:
        span = pair.sim
        key = (span.kind, span.name, span.axes, span.message_bytes) if span.axes else (span.kind, "", "", 0.0)
        alike.setdefault(key, []).append(pair)
    several = [_delta(key, pairs, sizes) for key, pairs in alike.items()]
    return tuple(sorted(several, key=lambda delta: (not delta.is_collective, -delta.real_total_s)))


def _delta(key: tuple[str, str, str, float], pairs: Sequence[OpPair], sizes: Mapping[str, int]) -> Delta:
    kind, name, axes, message_bytes = key
    num_ranks = len({pair.rank for pair in pairs})
    sim, real = (median(times) for times in zip(*((duration(p.sim), duration(p.real)) for p in pairs), strict=True))
    ratios = ratios_of(pairs)
    return Delta(
        kind=kind,
        name=name,
        axes=axes,
        group_size=math.prod(sizes.get(axis, 0) for axis in axes.split("+")) if axes else 0,
        message_bytes=message_bytes,
        calls=len({pair.sim.op for pair in pairs}),
        sim_s=sim,
        real_s=real,
        ratio=quotient(real, sim),
        apart=median(abs(ratio - 1) for ratio in ratios) if ratios else math.nan,
        sim_wait_s=median(waiting(pair.sim) for pair in pairs),
        real_wait_s=median(waiting(pair.real) for pair in pairs),
        real_total_s=sum(duration(pair.real) for pair in pairs) / num_ranks,
    )


def step_times(comparison: Comparison) -> PlanStepTimes:
    """The plan's step, simulated and real."""
    noted = number_of(comparison.real.notes, "step_median_s")
    return PlanStepTimes(
        plan=comparison.plan,
        sim_s=comparison.sim.step_s,
        real_s=comparison.real.step_s if noted is None else noted,
        real_iqr_s=number_of(comparison.real.notes, "step_iqr_s"),
    )


def judge(comparisons: Sequence[Comparison], min_bytes: float, tolerance: float) -> Verdict:
    """The verdict over several plans."""
    large = large_pairs(comparisons, min_bytes)
    ratios = ratios_of(large)
    swapped, close, muddled = _ranks([step_times(each) for each in comparisons])
    ranking: Ranking = "differ" if swapped else "alike within noise" if muddled else "alike"
    return Verdict(
        num_different=sum(each.num_different for each in comparisons),
        min_bytes=min_bytes,
        tolerance=tolerance,
        judged=len(ratios),
        apart=median(abs(ratio - 1) for ratio in ratios) if ratios else math.nan,
        ratio=median(ratios) if ratios else math.nan,
        ranking=ranking if len(comparisons) > 1 else "one plan",
        swapped=swapped,
        close=close,
    )


PlanPairs = tuple[tuple[str, str], ...]


def _ranks(steps: Sequence[PlanStepTimes]) -> tuple[PlanPairs, PlanPairs, bool]:
    """Pairs that rank otherwise in reality, pairs that are too close there to tell, and whether any of these does."""
    swapped, close, muddled = [], [], False
    for a, b in combinations(sorted(steps, key=lambda step: step.sim_s), 2):
        apart = b.real_s - a.real_s
        other_way = apart < 0 and b.sim_s - a.sim_s > SAME * b.sim_s
        noise = None if a.real_iqr_s is None or b.real_iqr_s is None else (a.real_iqr_s + b.real_iqr_s) / 2
        if noise is not None and abs(apart) <= noise:
            close.append((a.plan, b.plan))
            muddled = muddled or other_way
        elif other_way:
            swapped.append((a.plan, b.plan))
    return tuple(swapped), tuple(close), muddled


def large_pairs(comparisons: Iterable[Comparison], min_bytes: float) -> list[OpPair]:
    """The collectives whose messages are of at least that many bytes."""
    return [
        pair for each in comparisons for pair in each.pairs if pair.sim.axes and pair.sim.message_bytes >= min_bytes
    ]


def ratios_of(pairs: Iterable[OpPair]) -> list[float]:
    """Real over simulated duration, of those that were simulated to take time."""
    return [duration(pair.real) / duration(pair.sim) for pair in pairs if duration(pair.sim) > 0]


def duration(span: Span) -> float:
    """Seconds from start to end; clocks of several hosts may put an end a little before its start."""
    return max(span.end_s - span.start_s, 0.0)


def waiting(span: Span) -> float:
    """Seconds that the rank waits for its group."""
    return max(span.start_s - span.ready_s, 0.0)


def quotient(a: float, b: float) -> float:
    """a / b, NaN where b is 0."""
    return a / b if b else math.nan


def number_of(notes: Mapping[str, str], name: str) -> float | None:
    """A noted number of 0 or more; None where there is none."""
    try:
        value = float(notes.get(name, ""))
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _mesh(trace: Trace) -> dict[str, int]:
    """Sizes of the axes, where the trace notes them as `node 2, package 4, gcd 2`."""
    axes = (_AXIS.fullmatch(part) for part in trace.notes.get("mesh", "").split(","))
    return {match[1]: int(match[2]) for match in axes if match}
