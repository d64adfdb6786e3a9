"""Every two plans of a study against each other, at every size."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from simfrontier.answers.study import PlanOutcome
from simfrontier.interfaces.report.findings.samples import Sampled, sampled_ratio, sampled_share, too_close, work_ratio
from simfrontier.interfaces.report.view import StudyView


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Comparison of two plans at one size: the ratio of their rates, the share of `num_samples`
    paired samples in which it is faster (None: nothing was sampled), and whether that is `too_close` to call."""

    devices: int
    plan: str
    other: str
    ratio: Sampled
    faster_share: float | None
    num_samples: int
    too_close: bool

    @property
    def lead(self) -> float:
        """Return the relative lead of the plan over the other (0.05: 5 % faster)."""
        return self.ratio.median - 1.0


def pairs_of(view: StudyView) -> tuple[Pair, ...]:
    """All pairs of plans that fit, at every size, each in one order: that of the scenario's plans."""
    return tuple(
        pair_of(view, first, second)
        for size in view.sizes
        for first, second in combinations([outcome for outcome in view.at(size) if outcome.row["fits"]], 2)
    )


def pair_of(view: StudyView, first: PlanOutcome, second: PlanOutcome) -> Pair:
    """Two plans that fit at one size."""
    work = work_ratio(view, first, second)
    share, count = sampled_share(first, second, work) or (None, 0)
    ratio = sampled_ratio(first, second, work)
    return Pair(
        devices=first.devices,
        plan=first.plan,
        other=second.plan,
        ratio=ratio,
        faster_share=share,
        num_samples=count,
        too_close=too_close(ratio.median, share),
    )
