"""How the plans of a study scale: the rate, step and scaling efficiency of each at every size."""

from __future__ import annotations

from collections.abc import Mapping

from simfrontier.records import dataclass
from simfrontier.report.findings.samples import Sampled, sampled_rate, sampled_step_s
from simfrontier.report.view import StudyView, nominal_step_s, rate, step_s
from simfrontier.study import PlanOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledPlan:
    """One plan at one size. `rate`: tokens per second and device (samples, where a model has none), and `step_s`,
    seconds: medians, 90 % intervals (`sampled_`), and without variation (`nominal_`). `tflops_per_device`: the model's
    operations, none counted twice. `efficiency` (0 to 1): the column `scaling_efficiency`. `misfit`: why it does not
    fit, and then there are no numbers."""

    devices: int
    misfit: str
    rate: float | None = None
    sampled_rate: Sampled | None = None
    nominal_rate: float | None = None
    tflops_per_device: float | None = None
    step_s: float | None = None
    sampled_step_s: Sampled | None = None
    nominal_step_s: float | None = None
    efficiency: float | None = None


def scaling_of(view: StudyView) -> Mapping[str, tuple[ScaledPlan, ...]]:
    """The plans of a study at its sizes, ascending."""
    return {plan: tuple(map(_scaled, sorted(view.study.of(plan), key=lambda o: o.devices))) for plan in view.plans}


def _scaled(outcome: PlanOutcome) -> ScaledPlan:
    row = outcome.row
    if not row["fits"]:
        return ScaledPlan(devices=outcome.devices, misfit=str(row["note"]))
    return ScaledPlan(
        devices=outcome.devices,
        misfit="",
        rate=rate(outcome),
        sampled_rate=sampled_rate(outcome),
        nominal_rate=rate(outcome) * step_s(outcome) / nominal_step_s(outcome),
        tflops_per_device=float(row["tflops_per_device"]),
        step_s=step_s(outcome),
        sampled_step_s=sampled_step_s(outcome),
        nominal_step_s=nominal_step_s(outcome),
        efficiency=float(row["scaling_efficiency"]),
    )
