"""A study: every plan of a scenario at every size, and what compares them with each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simfrontier.answers.study.advice import shortage
from simfrontier.answers.study.columns import EMPTY_IF_TOO_BIG, RESULTS
from simfrontier.answers.study.outcome import PlanOutcome, run_case
from simfrontier.answers.study.schedule_cache import ScheduleCache
from simfrontier.base.workers import Local, PerProcess, Workers
from simfrontier.core.engine import Fidelity
from simfrontier.inputs.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Study:
    """All outcomes of a scenario, in the scenario's order of plans, then sizes; rows are complete."""

    scenario: Scenario
    fidelity: Fidelity
    outcomes: tuple[PlanOutcome, ...]

    def of(self, plan: str) -> list[PlanOutcome]:
        """The outcomes of one plan, in the scenario's order of sizes."""
        return [outcome for outcome in self.outcomes if outcome.plan == plan]

    def frame(self) -> pd.DataFrame:
        """The rows as a table for notebooks; what is empty because a plan does not fit is NaN."""
        import pandas as pd

        table = pd.DataFrame([outcome.row for outcome in self.outcomes])
        for column in RESULTS:
            if column.is_number and not column.is_whole:
                table[column.name] = pd.to_numeric(table[column.name], errors="coerce")
        return table


def run_study(
    scenario: Scenario,
    fidelity: Fidelity | None = None,
    exact: bool = False,
    progress: Callable[[str], None] = lambda _: None,
    workers: Workers | None = None,
    schedules: PerProcess[ScheduleCache] | None = None,
) -> Study:
    """Simulate every plan at every size. `progress` is called with a short text as each case ends. `workers`: who does
    it, a case at a time (None: this process); `schedules`: what is built is taken from there and kept there."""
    chosen = fidelity or scenario.file.run.fidelity
    workers, schedules = workers or Workers(Local()), schedules or PerProcess(ScheduleCache)
    # Every plan is built before the first is simulated, so that one that cannot be built is refused at once.
    for _ in workers.in_order(_stock, ((scenario, plan, schedules) for plan in scenario.plans)):
        pass
    outcomes: list[PlanOutcome] = []
    calls = (
        (scenario, plan, devices, chosen, exact, schedules)
        for plan in scenario.plans
        for devices in scenario.file.run.devices
    )
    for outcome in workers.in_order(_outcome, calls):
        progress(f"{outcome.plan} on {outcome.devices}")
        outcomes.append(outcome)
    return Study(scenario=scenario, fidelity=chosen, outcomes=tuple(completed(scenario, outcomes)))


def _stock(scenario: Scenario, plan: str, schedules: PerProcess[ScheduleCache]) -> None:
    """Build a plan once for every structure that it has: what cannot be built is refused here."""
    built = set()
    for devices in scenario.file.run.devices:
        case = scenario.case(plan, devices)
        structure = (case.shape.name, case.grad_accum, case.mesh.live(case.mesh.names))
        if structure not in built:
            schedules.here.of_case(scenario, case)
            built.add(structure)


def _outcome(
    scenario: Scenario,
    plan: str,
    devices: int,
    fidelity: Fidelity,
    exact: bool,
    schedules: PerProcess[ScheduleCache],
) -> PlanOutcome:
    """One plan at one size; the largest is drawn."""
    drawn = devices == max(scenario.file.run.devices)
    return run_case(scenario, plan, devices, fidelity, exact, drawn, schedules.here)


def completed(scenario: Scenario, outcomes: list[PlanOutcome]) -> list[PlanOutcome]:
    """The outcomes with the columns that compare rows: efficiency against the plan's smallest size, speed-up against
    the first plan."""
    first = next(iter(scenario.plans))
    fitting = [outcome for outcome in outcomes if outcome.row["fits"]]
    rate = {(o.plan, o.devices): float(o.row["tflops_per_device"]) for o in fitting}  # models may grow with sizes
    pace = {(o.plan, o.devices): float(o.row["tokens_per_s"]) for o in fitting}
    for outcome in outcomes:
        row, own = outcome.row, rate.get((outcome.plan, outcome.devices), math.nan)
        sizes = sorted(n for plan, n in rate if plan == outcome.plan)
        base = rate.get((outcome.plan, sizes[0]), math.nan) if sizes else math.nan
        row["scaling_efficiency"] = own / base
        size = outcome.devices
        row["speedup"] = pace.get((outcome.plan, size), math.nan) / pace.get((first, size), math.nan)
        row["note"] = "; ".join(filter(None, (str(row["note"]), *outcome.advice)))
        if not row["fits"]:
            row["note"] = _too_big(scenario, outcome, outcomes)
            row.update(dict.fromkeys(EMPTY_IF_TOO_BIG, ""))
        for key in ("scaling_efficiency", "speedup"):
            if isinstance(row[key], float) and math.isnan(row[key]):  # type: ignore[arg-type]
                row[key] = ""
    return outcomes


def _capacity_bytes(scenario: Scenario, outcome: PlanOutcome) -> float:
    return scenario.of(outcome.plan, outcome.devices).machine.device.hbm_bytes


def _too_big(scenario: Scenario, outcome: PlanOutcome, outcomes: list[PlanOutcome]) -> str:
    """What is too big, and what would fit at this size or where this plan would fit."""
    need, have = int(outcome.row["peak_memory_bytes"]), _capacity_bytes(scenario, outcome)
    others = [o.plan for o in outcomes if o.devices == outcome.devices and o.row["fits"]]
    sizes = [o.devices for o in outcomes if o.plan == outcome.plan and o.row["fits"]]
    advice = [*outcome.advice]
    if sizes:
        advice.append(f"this plan fits from {min(sizes)} devices on")
    if others:
        advice.append(f"at {outcome.devices} devices these fit: {', '.join(others)}")
    if not sizes and not others:
        advice.append("no plan of this scenario fits at this size")
    return f"{shortage(need, have, outcome.at_peak)}; {'; '.join(advice)}"
