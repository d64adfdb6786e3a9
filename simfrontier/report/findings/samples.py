"""What the samples of a plan's step say: the range of most of them, and how often it is faster than another plan."""

from __future__ import annotations

from simfrontier.analysis import band_of, probability_faster
from simfrontier.records import dataclass
from simfrontier.report.view import rate, step_s
from simfrontier.study import BAND, PlanOutcome

SURE = 0.9  # a ranking that fewer samples agree with is too close to call


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The middle of the samples, and what nine of ten lie within."""

    low: float
    median: float
    high: float


def sampled_step_s(outcome: PlanOutcome) -> Sampled | None:
    """The samples of a step in seconds; None where nothing is known to be uncertain."""
    if outcome.samples_s is None:
        return None
    low, median, high = (float(outcome.row[column]) for column in BAND)
    return Sampled(low=low, median=median, high=high)


def sampled_tflops(outcome: PlanOutcome) -> Sampled | None:
    """The samples of a plan's TFLOPS per device, which are as the inverse of its times."""
    step = sampled_step_s(outcome)
    if step is None:
        return None
    work = rate(outcome) * step_s(outcome)
    return Sampled(low=work / step.high, median=work / step.median, high=work / step.low)


def sampled_ratio(first: PlanOutcome, second: PlanOutcome, work: float) -> Sampled:
    """The ratio of the first plan's pace to the second's, where it does `work` times as much in a step: of paired
    samples, or of the steps as they are where there are none."""
    if first.samples_s is None or second.samples_s is None:
        ratio = work * step_s(second) / step_s(first)
        return Sampled(low=ratio, median=ratio, high=ratio)
    low, median, high = band_of(work * second.samples_s / first.samples_s)
    return Sampled(low=low, median=median, high=high)


def sampled_share(first: PlanOutcome, second: PlanOutcome) -> tuple[float, int] | None:
    """The share of samples in which the first is faster, and how many there are; None where there are none."""
    if first.samples_s is None or second.samples_s is None:
        return None
    return probability_faster(first.samples_s, second.samples_s), len(first.samples_s)


def num_samples(outcome: PlanOutcome) -> int:
    """How often a step was sampled."""
    return 0 if outcome.samples_s is None else len(outcome.samples_s)
