"""Verdict of a cross-check (simulation and reality agree, differ, or cannot be judged), and the bounds that decide
it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Final, Literal

from simfrontier.core.trace.comparison import Comparison, OpPair
from simfrontier.core.trace.table import CALIBRATION_RESIDUAL, OTHERS_SHARE, Span, Trace

_AXIS: Final = re.compile(r"\s*(\S+) (\d{1,9})\s*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """Difference in time between simulation and reality for equivalent ops: collectives with the same kind, name, axes
    and message size; or local work of the same kind (the other fields are empty).

    `calls` is the number of these ops on one rank; medians are over ops and ranks. `group_size` is 0 if the traces lack
    it. `ratio` is the ratio of the median times, real over simulated; `apart` the median over ops of |real/sim - 1|;
    both are NaN if no time was simulated. `wait` is the time from a rank's readiness to that of its whole group.
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
    """Step times of a plan. `real_s` is the median over iterations if the trace states it, `real_iqr_s` the
    interquartile range over iterations. `sim_spread`: median relative difference between two measurements of the
    calibration used by the simulation. `others_share`: share of the processors that other programs used during the real
    steps. A value is None if the trace lacks it."""

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
        """Interquartile range of the real step times divided by their median."""
        return None if self.real_iqr_s is None else quotient(self.real_iqr_s, self.real_s)

    @property
    def others_noise(self) -> float:
        """Largest relative slowdown of the real steps by other programs, when a rank gets 1 - `others_share` of the
        processors that it needs. 0 if unknown."""
        share = min(self.others_share or 0.0, 0.99)
        return share / (1.0 - share)


def deltas(comparison: Comparison) -> tuple[Delta, ...]:
    """Return the deltas of collectives, then those of local work, each in descending order of real time."""
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
    """Return the simulated and the real step time of a plan."""
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
    """Return the pairs of collectives whose messages have at least `min_bytes` bytes."""
    return [
        pair for each in comparisons for pair in each.pairs if pair.sim.axes and pair.sim.message_bytes >= min_bytes
    ]


def ratios_of(pairs: Iterable[OpPair]) -> list[float]:
    """Return the real duration divided by the simulated duration, for all pairs whose simulated duration is not 0."""
    return [duration(pair.real) / duration(pair.sim) for pair in pairs if duration(pair.sim) > 0]


def duration(span: Span) -> float:
    """Return the seconds from start to end of a span, at least 0: clock skew between hosts may put an end slightly
    before its start."""
    return max(span.end_s - span.start_s, 0.0)


def waiting(span: Span) -> float:
    """Return the seconds for which the span's rank waits for its group."""
    return max(span.start_s - span.ready_s, 0.0)


def quotient(a: float, b: float) -> float:
    """Return a / b; NaN if b is 0."""
    return a / b if b else math.nan


def number_of(notes: Mapping[str, str], name: str) -> float | None:
    """Return the non-negative number in the note `name`; None if there is none."""
    try:
        value = float(notes.get(name, ""))
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def axis_sizes(trace: Trace) -> dict[str, int]:
    """Return the sizes of the mesh axes from the trace's note, such as `node 2, package 4, gcd 2`."""
    axes = (_AXIS.fullmatch(part) for part in trace.notes.get("mesh", "").split(","))
    return {match[1]: int(match[2]) for match in axes if match}


SAME: Final = 1e-9  # relative: step times closer than this are equal
LEAST_SHARE: Final = 0.5  # of all bytes of messages: collectives that carry less are not representative
Ranking = Literal["alike", "alike within noise", "differ", "one plan"]
Outcome = Literal["agree", "differ", "too small to judge", "too noisy to judge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Verdict over all plans, with the numbers on which it is based.

    `judged` counts the collectives (calls × ranks) of at least `min_bytes`, which carry `judged_share` of all message
    bytes; `apart` is the median of their |real/sim - 1|, `ratio` the median of their real/sim; both are NaN if there
    are no such collectives. `swapped` holds pairs of plans (as simulated: faster, slower) whose order by real step time
    is reversed; `close` holds the pairs that noise may reverse. `real_noise` is the largest spread of a plan's real
    steps, `others_noise` the largest slowdown of real steps by other programs, `sim_noise` the largest difference
    between two measurements of the calibration; all three are relative, and 0 if unknown.
    """

    num_different: int
    min_bytes: float
    tolerance: float
    judged: int
    judged_share: float
    apart: float
    ratio: float
    ranking: Ranking
    swapped: tuple[tuple[str, str], ...]
    close: tuple[tuple[str, str], ...]
    real_noise: float
    sim_noise: float
    others_noise: float = 0.0

    @property
    def is_exact(self) -> bool:
        return self.num_different == 0

    @property
    def is_large_enough(self) -> bool:
        """True if the judged collectives carry most of the bytes sent."""
        return self.judged > 0 and self.judged_share >= LEAST_SHARE

    @property
    def is_near(self) -> bool:
        """True if the collectives' times agree within the tolerance; False if no collective was judged."""
        return self.apart <= self.tolerance

    @property
    def is_apart(self) -> bool:
        """True if the collectives' times differ by more than the tolerance and noise together."""
        return self.apart > self.tolerance + self.noise

    @property
    def noise(self) -> float:
        """Largest relative difference that is expected between the times of equal runs."""
        return max(self.real_noise, self.others_noise, self.sim_noise)

    @property
    def is_noisy(self) -> bool:
        """True if the noise alone exceeds the tolerance."""
        return self.noise > self.tolerance

    @property
    def outcome(self) -> Outcome:
        """Outcome of the cross-check. Differences in operations are never excused. Too small collectives are reported
        before noise, because they would be too small on an idle machine too. If times differ by more than the
        tolerance, but exceed it by less than the noise, the outcome is inconclusive."""
        if not self.is_exact:
            return "differ"
        if not self.is_large_enough:
            return "too small to judge"
        if self.is_noisy:
            return "too noisy to judge"
        if self.ranking == "differ" or self.is_apart:
            return "differ"
        return "agree" if self.is_near else "too noisy to judge"


def judge(comparisons: Sequence[Comparison], min_bytes: float, tolerance: float) -> Verdict:
    """Return the verdict over several plans."""
    large = large_pairs(comparisons, min_bytes)
    ratios = ratios_of(large)
    sent = math.fsum(pair.sim.message_bytes for pair in large_pairs(comparisons, 0))
    steps = [step_times(each) for each in comparisons]
    swapped, close, muddled = _ranks(steps)
    ranking: Ranking = "differ" if swapped else "alike within noise" if muddled else "alike"
    return Verdict(
        num_different=sum(each.num_different for each in comparisons),
        min_bytes=min_bytes,
        tolerance=tolerance,
        judged=len(ratios),
        judged_share=math.fsum(pair.sim.message_bytes for pair in large) / sent if sent else 0.0,
        apart=median(abs(ratio - 1) for ratio in ratios) if ratios else math.nan,
        ratio=median(ratios) if ratios else math.nan,
        ranking=ranking if len(comparisons) > 1 else "one plan",
        swapped=swapped,
        close=close,
        real_noise=max((step.real_spread or 0.0 for step in steps), default=0.0),
        sim_noise=max((step.sim_spread or 0.0 for step in steps), default=0.0),
        others_noise=max((step.others_noise for step in steps), default=0.0),
    )


PlanPairs = tuple[tuple[str, str], ...]


def _ranks(steps: Sequence[PlanStepTimes]) -> tuple[PlanPairs, PlanPairs, bool]:
    """Return the pairs of plans whose order by real step time is reversed, the pairs too close to rank, and whether any
    of the pairs too close to rank is reversed."""
    swapped, close, muddled = [], [], False
    for a, b in combinations(sorted(steps, key=lambda step: step.sim_s), 2):
        apart = b.real_s - a.real_s
        other_way = apart < 0 and b.sim_s - a.sim_s > SAME * b.sim_s
        noise_s = -1.0 if a.real_iqr_s is None or b.real_iqr_s is None else (a.real_iqr_s + b.real_iqr_s) / 2
        if others := max(a.others_noise, b.others_noise):
            noise_s = max(noise_s, others * min(a.real_s, b.real_s))
        sim_noise_s = (
            -1.0 if a.sim_spread is None or b.sim_spread is None else b.sim_s * max(a.sim_spread, b.sim_spread)
        )
        if abs(apart) <= noise_s or b.sim_s - a.sim_s <= sim_noise_s:
            close.append((a.plan, b.plan))
            muddled = muddled or other_way
        elif other_way:
            swapped.append((a.plan, b.plan))
    return tuple(swapped), tuple(close), muddled
