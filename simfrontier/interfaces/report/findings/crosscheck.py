"""Findings of a cross-check: how many operations were compared, and the order of the plans on both sides."""

from __future__ import annotations

from dataclasses import dataclass

from simfrontier.core.trace import CALIBRATION, CrossCheck, PlanStepTimes, step_times


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossCheckFindings:
    """Findings of a cross-check. `num_operations`: compared, counted on every rank; `noisy`: plans whose real
    steps vary too much to be judged; `uncalibrated`: machines of simulations that rest on no calibration; `sim_order`
    and `real_order`: plans, the fastest first."""

    check: CrossCheck
    num_operations: int
    steps: tuple[PlanStepTimes, ...]
    noisy: tuple[PlanStepTimes, ...]
    uncalibrated: tuple[str, ...]
    sim_order: tuple[str, ...]
    real_order: tuple[str, ...]


def crosscheck_findings(check: CrossCheck) -> CrossCheckFindings:
    """Return the findings of a cross-check."""
    steps = tuple(map(step_times, check.comparisons))
    return CrossCheckFindings(
        check=check,
        num_operations=sum(len(each.pairs) for each in check.comparisons),
        steps=steps,
        noisy=tuple(step for step in steps if (step.real_spread or 0.0) > check.verdict.tolerance),
        uncalibrated=tuple(
            dict.fromkeys(
                each.sim.notes["machine"]
                for each in check.comparisons
                if "machine" in each.sim.notes and CALIBRATION not in each.sim.notes
            )
        ),
        sim_order=tuple(step.plan for step in sorted(steps, key=lambda step: step.sim_s)),
        real_order=tuple(step.plan for step in sorted(steps, key=lambda step: step.real_s)),
    )
