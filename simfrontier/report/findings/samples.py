"""What the samples of a plan's step say: its 90 % interval, and how often it trains faster than another plan."""

from __future__ import annotations

from collections.abc import Callable

from simfrontier.accuracy import mean_step_error
from simfrontier.analysis import band_of, probability_faster
from simfrontier.records import dataclass
from simfrontier.report.view import StudyView, rate, step_s
from simfrontier.study import BAND, PlanOutcome

SURE = 0.9  # a ranking that fewer samples agree with is too close to call


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A value at median steps, within the 90 % interval of its samples."""

    low: float
    median: float
    high: float


def sampled_step_s(outcome: PlanOutcome) -> Sampled | None:
    """The samples of a step in seconds; None where nothing is known to be uncertain."""
    if outcome.samples_s is None:
        return None
    low, median, high = (float(outcome.row[column]) for column in BAND)
    return Sampled(low=low, median=median, high=high)


def sampled_rate(outcome: PlanOutcome, rate_of: Callable[[PlanOutcome], float] = rate) -> Sampled | None:
    """The samples of a plan's rate (in tokens per second and device, or as `rate_of` counts), which is as the inverse
    of its times."""
    step = sampled_step_s(outcome)
    if step is None:
        return None
    work = rate_of(outcome) * step_s(outcome)
    return Sampled(low=work / step.high, median=work / step.median, high=work / step.low)


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
    """Whether a ratio of rates, whichever of the two is the faster one, is too near 1 to call: by less than the model's
    own error of a step, whatever samples say that err in the same way for all plans, or with fewer than `SURE` of the
    samples agreeing."""
    is_near = max(ratio, 1 / ratio) - 1 < mean_step_error()
    return is_near or (faster_share is not None and max(faster_share, 1 - faster_share) < SURE)


def work_ratio(view: StudyView, first: PlanOutcome, second: PlanOutcome) -> float:
    """How many times as many sequences a step of the first plan has."""
    return view.samples_of(first) / view.samples_of(second)


def num_samples(outcome: PlanOutcome) -> int:
    """How often a step was sampled."""
    return 0 if outcome.samples_s is None else len(outcome.samples_s)
