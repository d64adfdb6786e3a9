"""How the plans of a study scale: the rate, step and scaling efficiency of each at every size."""

from __future__ import annotations

import math
from collections.abc import Mapping

from simfrontier.records import dataclass
from simfrontier.report.findings.samples import Sampled, sampled_step_s, sampled_tflops
from simfrontier.report.view import StudyView, median_rate, median_step_s, rate, step_s
from simfrontier.study import PlanOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledPlan:
    """One plan at one size: medians of its samples, and what they are where every device is typical and no model errs.
    `efficiency` (0 to 1): its rate per device over its own at the smallest size at which it fits. `misfit`: why it does
    not fit, and then there are no numbers."""

    devices: int
    misfit: str
    tflops_per_device: float | None = None
    sampled_tflops: Sampled | None = None
    typical_tflops: float | None = None
    step_s: float | None = None
    sampled_step_s: Sampled | None = None
    typical_step_s: float | None = None
    efficiency: float | None = None


def scaling_of(view: StudyView) -> Mapping[str, tuple[ScaledPlan, ...]]:
    """The plans of a study at its sizes, ascending."""
    return {plan: _scaled_plan(sorted(view.study.of(plan), key=lambda o: o.devices)) for plan in view.plans}


def _scaled_plan(outcomes: list[PlanOutcome]) -> tuple[ScaledPlan, ...]:
    first = next((median_rate(o) for o in outcomes if o.row["fits"]), math.nan)
    return tuple(_scaled(outcome, first) for outcome in outcomes)


def _scaled(outcome: PlanOutcome, first: float) -> ScaledPlan:
    if not outcome.row["fits"]:
        return ScaledPlan(devices=outcome.devices, misfit=str(outcome.row["note"]))
    return ScaledPlan(
        devices=outcome.devices,
        misfit="",
        tflops_per_device=median_rate(outcome),
        sampled_tflops=sampled_tflops(outcome),
        typical_tflops=rate(outcome),
        step_s=median_step_s(outcome),
        sampled_step_s=sampled_step_s(outcome),
        typical_step_s=step_s(outcome),
        efficiency=median_rate(outcome) / first,
    )
