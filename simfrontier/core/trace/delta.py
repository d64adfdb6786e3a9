"""Differences of simulated and real times by kind of call and by step."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from simfrontier.core.trace.comparison import Comparison, OpPair
from simfrontier.core.trace.table import CALIBRATION_RESIDUAL, OTHERS_SHARE, Span, Trace

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
    interquartile range. `sim_spread`: how far two measurements of the calibration that the simulation rests on lie
    apart (median, relative). `others_share`: of the processors, that other programs took during the real steps. None
    where a trace lacks it."""

    plan: str
    sim_s: float
    real_s: float
    real_iqr_s: float | None
    sim_spread: float | None = None
    others_share: float | None = None

    @property
    def ratio(self) -> float:
        return quotient(self.real_s, self.sim_s)

    @property
    def real_spread(self) -> float | None:
        """Interquartile range of the real steps over their median."""
        return None if self.real_iqr_s is None else quotient(self.real_iqr_s, self.real_s)

    @property
    def others_noise(self) -> float:
        """Largest relative slowdown of the real steps by other programs: a rank got 1 - `others_share` of the
        processors that it needs. 0 if unknown."""
        share = min(self.others_share or 0.0, 0.99)
        return share / (1.0 - share)


def deltas(comparison: Comparison) -> tuple[Delta, ...]:
    """Collectives, then local work; each by falling real time."""
    sizes = {**axis_sizes(comparison.real), **axis_sizes(comparison.sim)}
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
    """Return the plan's step times, simulated and real."""
    noted = number_of(comparison.real.notes, "step_median_s")
    return PlanStepTimes(
        plan=comparison.plan,
        sim_s=comparison.sim.step_s,
        real_s=comparison.real.step_s if noted is None else noted,
        real_iqr_s=number_of(comparison.real.notes, "step_iqr_s"),
        sim_spread=number_of(comparison.sim.notes, CALIBRATION_RESIDUAL),
        others_share=number_of(comparison.real.notes, OTHERS_SHARE),
    )


def large_pairs(comparisons: Iterable[Comparison], min_bytes: float) -> list[OpPair]:
    """Return the collectives whose messages have at least that many bytes."""
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
    """Return a noted number of 0 or more; None if there is none."""
    try:
        value = float(notes.get(name, ""))
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def axis_sizes(trace: Trace) -> dict[str, int]:
    """Return the sizes of the axes that the trace notes as `node 2, package 4, gcd 2`."""
    axes = (_AXIS.fullmatch(part) for part in trace.notes.get("mesh", "").split(","))
    return {match[1]: int(match[2]) for match in axes if match}
