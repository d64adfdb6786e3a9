"""How sure the ranking of plans is: what was sampled, and for each pair of plans how often one is faster."""

from __future__ import annotations

from collections.abc import Mapping

from simfrontier.accuracy import mean_step_error
from simfrontier.analysis import Spread, spread_of
from simfrontier.records import dataclass
from simfrontier.report.findings.pairs import Pair, pair_of
from simfrontier.report.findings.samples import Sampled, num_samples, sampled_step_s
from simfrontier.report.view import StudyView, nominal_step_s, rate
from simfrontier.study import PlanOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """`errors`: what is sampled. By number of devices: `ranked`, the plans that have samples, the fastest first, and
    `pairs`: each of them against each other, by plan and other plan. `step_error`: the model's own error of a step. The
    step of the fastest plan at the largest size is the `example` of what errors do to a step. `are_plain`: whether
    steps may be sampled: single ones, of a job by itself, on a machine that does not change."""

    errors: Spread
    num_samples: int
    ranked: Mapping[int, tuple[str, ...]]
    pairs: Mapping[int, Mapping[str, Mapping[str, Pair]]]
    step_error: float
    any_fits: bool
    are_plain: bool
    example: str
    example_devices: int
    example_nominal_s: float | None
    example_sampled_s: Sampled | None


def ranking_of(view: StudyView) -> Ranking:
    """How sure the ranking of a study's plans is, at every size at which any has samples."""
    known = {size: outcomes for size in view.sizes if (outcomes := with_samples(view, size))}
    size = max(known, default=0)
    example = known[size][0] if known else None
    file = view.scenario.file
    return Ranking(
        errors=spread_of(view.scenario.machine, view.scenario.library),
        num_samples=file.uncertainty.samples if example is None else num_samples(example),
        ranked={size: tuple(o.plan for o in outcomes) for size, outcomes in known.items()},
        pairs={size: _pairs(view, outcomes) for size, outcomes in known.items()},
        step_error=mean_step_error(),
        any_fits=any(outcome.row["fits"] for outcome in view.study.outcomes),
        are_plain=view.scenario.beside is None and not file.perturbation.is_timed and file.run.steps == 1,
        example=example.plan if example else "",
        example_devices=size,
        example_nominal_s=nominal_step_s(example) if example else None,
        example_sampled_s=sampled_step_s(example) if example else None,
    )


def with_samples(view: StudyView, size: int) -> list[PlanOutcome]:
    """Outcomes at a size that have samples, the fastest first."""
    known = [outcome for outcome in view.at(size) if outcome.samples_s is not None]
    return sorted(known, key=lambda outcome: -rate(outcome))


def _pairs(view: StudyView, outcomes: list[PlanOutcome]) -> dict[str, dict[str, Pair]]:
    return {a.plan: {b.plan: pair_of(view, a, b) for b in outcomes if b is not a} for a in outcomes}
