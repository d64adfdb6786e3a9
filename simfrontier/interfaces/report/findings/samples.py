"""Two plans by the samples of their steps: the ratio of their rates, and how often one is faster."""

from __future__ import annotations

from dataclasses import dataclass

from simfrontier.answers.accuracy import mean_step_error
from simfrontier.answers.step import band_of, probability_faster
from simfrontier.answers.study import PlanOutcome
from simfrontier.interfaces.report.view import StudyView, step_s

SURE = 0.9  # a ranking that fewer samples agree with is too close to call


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A value at median steps, within the 90 % interval of its samples."""

    low: float
    median: float
    high: float


def sampled_ratio(first: PlanOutcome, second: PlanOutcome, work: float) -> Sampled:
    """The ratio of the first plan's rate to the second's, where it does `work` times as much in a step: of their
    median steps, which is what their rates give, within the interval of paired samples (none: the ratio itself)."""
    ratio = work * step_s(second) / step_s(first)
    if first.samples_s is None or second.samples_s is None:
        return Sampled(low=ratio, median=ratio, high=ratio)
    low, _, high = band_of(work * second.samples_s / first.samples_s)
    return Sampled(low=low, median=ratio, high=high)


def sampled_share(first: PlanOutcome, second: PlanOutcome, work: float) -> tuple[float, int] | None:
    """The share of samples in which the first plan, which does `work` times as much in a step, has the higher rate, and
    how many there are; None where there are none."""
    if first.samples_s is None or second.samples_s is None:
        return None
    return probability_faster(first.samples_s / work, second.samples_s), len(first.samples_s)


def too_close(ratio: float, faster_share: float | None) -> bool:
    """Return whether a ratio of rates, whichever of the two is the faster one, is too near 1 to call: by less than the
    model's own error of a step, whatever samples say that err in the same way for all plans, or with fewer than `SURE`
    of the samples agreeing."""
    is_near = max(ratio, 1 / ratio) - 1 < mean_step_error()
    return is_near or (faster_share is not None and max(faster_share, 1 - faster_share) < SURE)


def work_ratio(view: StudyView, first: PlanOutcome, second: PlanOutcome) -> float:
    """Return the ratio of the sequences of a step, of the first plan to the second."""
    return view.samples_of(first) / view.samples_of(second)
