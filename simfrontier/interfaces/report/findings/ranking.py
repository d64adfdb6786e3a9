"""Confidence in the ranking of plans: sampled errors, and the share of samples in which one plan is faster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simfrontier.answers.accuracy import mean_step_error
from simfrontier.answers.step import Spread, spread_of
from simfrontier.answers.study import PlanOutcome
from simfrontier.interfaces.report.findings.pairs import Pair, pair_of
from simfrontier.interfaces.report.view import StudyView, rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """`errors`: what is sampled. By number of devices: `ranked`, the plans that have samples, the fastest first, and
    `pairs`: each of them against each other, by plan and other plan. `step_error`: the model's own error of a step.
    `are_plain`: whether steps may be sampled: single ones, of a job by itself, on a machine that does not change."""

    errors: Spread
    num_samples: int
    ranked: Mapping[int, tuple[str, ...]]
    pairs: Mapping[int, Mapping[str, Mapping[str, Pair]]]
    step_error: float
    are_plain: bool


def ranking_of(view: StudyView) -> Ranking:
    """Return the confidence in the ranking of a study's plans, at every size at which any has samples."""
    known = {size: outcomes for size in view.sizes if (outcomes := _with_samples(view, size))}
    sampled = [outcome.samples_s for outcomes in known.values() for outcome in outcomes]
    file = view.scenario.file
    return Ranking(
        errors=spread_of(view.scenario.machine, view.scenario.library),
        num_samples=file.uncertainty.samples if not sampled or sampled[-1] is None else len(sampled[-1]),
        ranked={size: tuple(o.plan for o in outcomes) for size, outcomes in known.items()},
        pairs={
            size: {a.plan: {b.plan: pair_of(view, a, b) for b in outcomes if b is not a} for a in outcomes}
            for size, outcomes in known.items()
        },
        step_error=mean_step_error(),
        are_plain=view.scenario.beside is None and not file.perturbation.is_timed and file.run.steps == 1,
    )


def _with_samples(view: StudyView, size: int) -> list[PlanOutcome]:
    """Outcomes at a size that have samples, the fastest first."""
    return sorted((o for o in view.at(size) if o.samples_s is not None), key=lambda outcome: -rate(outcome))
