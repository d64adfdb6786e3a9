"""Verdict of a cross-check: simulation and reality agree, differ, or cannot be judged, and by which bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Final, Literal

from simfrontier.core.trace.comparison import Comparison
from simfrontier.core.trace.delta import PlanStepTimes, large_pairs, ratios_of, step_times

SAME: Final = 1e-9  # relative: step times closer than this are equal
LEAST_SHARE: Final = 0.5  # of all bytes of messages: collectives that carry less of them do not speak for a plan
Ranking = Literal["alike", "alike within noise", "differ", "one plan"]
Outcome = Literal["agree", "differ", "too small to judge", "too noisy to judge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Verdict over all plans, with the numbers that it follows from.

    `judged` counts the collectives (calls × ranks) of at least `min_bytes`, which carry `judged_share` of all bytes of
    messages; `apart` is the median of their |real/sim - 1|, `ratio` that of real/sim; NaN where there are none.
    `swapped` are pairs of plans (as simulated: faster, slower) whose real order is the reverse, `close` those that
    noise may swap. `real_noise` is how much the real steps of a plan vary at most, `others_noise` by how much other
    programs can have made them longer, `sim_noise` how far two measurements of the calibration lie apart; all relative,
    0 where it is not known.
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
        """Whether those collectives whose times are judged carry most of what is sent."""
        return self.judged > 0 and self.judged_share >= LEAST_SHARE

    @property
    def is_near(self) -> bool:
        """Whether the collectives' times agree; False where there is none to judge by."""
        return self.apart <= self.tolerance

    @property
    def is_apart(self) -> bool:
        """Whether the collectives' times lie further apart than is allowed and than noise explains."""
        return self.apart > self.tolerance + self.noise

    @property
    def noise(self) -> float:
        """Relative time by which equal runs may differ."""
        return max(self.real_noise, self.others_noise, self.sim_noise)

    @property
    def is_noisy(self) -> bool:
        """Whether the noise alone is more than what is allowed."""
        return self.noise > self.tolerance

    @property
    def outcome(self) -> Outcome:
        """Operations that differ are never excused. What is too small stays so on an idle machine, so it comes before
        noise. Times that are beyond the tolerance by less than the noise may agree or not."""
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
    """Pairs that rank otherwise in reality, pairs that are too close there to tell, and whether any of these does."""
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
