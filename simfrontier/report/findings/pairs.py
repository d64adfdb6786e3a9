"""Every two plans of a study against each other, at every size."""

from __future__ import annotations

from itertools import combinations

from simfrontier.records import dataclass
from simfrontier.report.findings.samples import Sampled, sampled_ratio, sampled_share
from simfrontier.report.view import StudyView
from simfrontier.study import PlanOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """How fast a plan is against another on that many devices: the ratio of their samples (of training) per second, and
    the share of `num_samples` paired samples of their steps in which it is faster (None: nothing was sampled)."""

    devices: int
    plan: str
    other: str
    ratio: Sampled
    faster_share: float | None
    num_samples: int


def pairs_of(view: StudyView) -> tuple[Pair, ...]:
    """All pairs of plans that fit, at every size, each in one order: that of the scenario's plans."""
    return tuple(
        _pair(view, first, second)
        for size in view.sizes
        for first, second in combinations([outcome for outcome in view.at(size) if outcome.row["fits"]], 2)
    )


def pace_ratio(view: StudyView, first: PlanOutcome, second: PlanOutcome) -> Sampled:
    """How many times as many samples per second the first plan trains with as the second."""
    samples = [view.cases[each.plan, each.devices].samples for each in (first, second)]
    return sampled_ratio(first, second, samples[0] / samples[1])


def _pair(view: StudyView, first: PlanOutcome, second: PlanOutcome) -> Pair:
    share, count = sampled_share(first, second) or (None, 0)
    return Pair(
        devices=first.devices,
        plan=first.plan,
        other=second.plan,
        ratio=pace_ratio(view, first, second),
        faster_share=share,
        num_samples=count,
    )
