"""A study: every plan of a scenario at every size, and what compares them with each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from simfrontier.records import dataclass
from simfrontier.scenario import Scenario
from simfrontier.simulation import Fidelity
from simfrontier.study.outcome import COLUMNS, MORE_COLUMNS, TIMES, PlanOutcome, run_case
from simfrontier.study.schedule_cache import ScheduleCache
from simfrontier.units import written

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
        for column in (*TIMES, "scaling_efficiency", "speedup"):
            table[column] = pd.to_numeric(table[column], errors="coerce")
        return table


def run_study(
    scenario: Scenario,
    fidelity: Fidelity | None = None,
    exact: bool = False,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _: None,
    schedule_cache: ScheduleCache | None = None,
) -> Study:
    """Simulate every plan at every size. `progress` is called with a short text as each case ends. `schedule_cache`:
    what is built by this process is taken from it and kept in it."""
    chosen = fidelity or scenario.file.run.fidelity
    schedule_cache = schedule_cache or ScheduleCache()
    outcomes: list[PlanOutcome] = []
    plans = [(scenario, plan, chosen, exact) for plan in scenario.plans]
    for several in _mapped(plans, jobs, schedule_cache, progress):
        outcomes += several
    return Study(scenario=scenario, fidelity=chosen, outcomes=tuple(completed(scenario, outcomes)))


def _stock(schedule_cache: ScheduleCache, scenario: Scenario, plan: str) -> None:
    """Build a plan once for every structure that it has: what cannot be built is refused here."""
    built = set()
    for devices in scenario.file.run.devices:
        case = scenario.case(plan, devices)
        structure = (case.shape.name, case.grad_accum, case.mesh.live(case.mesh.names))
        if structure not in built:
            schedule_cache.of_case(scenario, case)
            built.add(structure)


def _run_plan(
    scenario: Scenario,
    plan: str,
    fidelity: Fidelity,
    exact: bool,
    schedule_cache: ScheduleCache,
    progress: Callable[[str], None] = lambda _: None,
) -> list[PlanOutcome]:
    """One plan at every size; the largest is drawn."""
    sizes, outcomes = scenario.file.run.devices, []
    for devices in sizes:
        outcomes.append(run_case(scenario, plan, devices, fidelity, exact, devices == max(sizes), schedule_cache))
        progress(f"{plan} on {devices}")
    return outcomes


def _run_plan_apart(scenario: Scenario, plan: str, fidelity: Fidelity, exact: bool) -> list[PlanOutcome]:
    """The same in a process of its own."""
    schedule_cache = ScheduleCache()
    _stock(schedule_cache, scenario, plan)
    return _run_plan(scenario, plan, fidelity, exact, schedule_cache)


def _mapped(
    plans: list[tuple[Scenario, str, Fidelity, bool]],
    jobs: int,
    schedule_cache: ScheduleCache,
    progress: Callable[[str], None],
) -> Iterator[list[PlanOutcome]]:
    """The plans' outcomes in order, one process per plan where there are several jobs."""
    if min(jobs, len(plans)) <= 1:
        # Every plan is built before the first is simulated, so that one that cannot be built is refused at once.
        for scenario, plan, _, _ in plans:
            _stock(schedule_cache, scenario, plan)
        yield from (_run_plan(*plan, schedule_cache, progress) for plan in plans)
        return
    from simfrontier.pool import Pool

    with Pool(min(jobs, len(plans))) as pool:
        for outcomes in pool.in_order(_run_plan_apart, plans):
            for outcome in outcomes:
                progress(f"{outcome.plan} on {outcome.devices}")
            yield outcomes


def completed(scenario: Scenario, outcomes: list[PlanOutcome]) -> list[PlanOutcome]:
    """The outcomes with the columns that compare rows: efficiency against the plan's smallest size, speed-up against
    the first plan."""
    first = next(iter(scenario.plans))
    fitting = [outcome for outcome in outcomes if outcome.row["fits"]]
    rate = {(o.plan, o.devices): float(o.row["tflops_per_device"]) for o in fitting}
    pace = {(o.plan, o.devices): float(o.row["tokens_per_s"]) for o in fitting}  # a plan that recomputes works more
    for outcome in outcomes:
        row, own = outcome.row, rate.get((outcome.plan, outcome.devices), math.nan)
        sizes = sorted(n for plan, n in rate if plan == outcome.plan)
        base = rate.get((outcome.plan, sizes[0]), math.nan) if sizes else math.nan
        row["scaling_efficiency"] = own / base
        size = outcome.devices
        row["speedup"] = pace.get((outcome.plan, size), math.nan) / pace.get((first, size), math.nan)
        if not row["fits"]:
            row["note"] = _too_big(scenario, outcome, outcomes)
            row.update(dict.fromkeys(TIMES, ""))
        for key in ("scaling_efficiency", "speedup"):
            if isinstance(row[key], float) and math.isnan(row[key]):  # type: ignore[arg-type]
                row[key] = ""
        ordered = {key: row[key] for key in (*COLUMNS, *MORE_COLUMNS)}
        row.clear()
        row.update(ordered)
    return outcomes


def _too_big(scenario: Scenario, outcome: PlanOutcome, outcomes: list[PlanOutcome]) -> str:
    """What is too big, and what would fit at this size or where this plan would fit."""
    need, have = int(outcome.row["peak_memory_bytes"]), scenario.machine.device.hbm_bytes
    largest = sorted(outcome.at_peak.items(), key=lambda item: -item[1])[:2]
    parts = ", ".join(f"{name} {written(size, 'bytes')}" for name, size in largest)
    others = [o.plan for o in outcomes if o.devices == outcome.devices and o.row["fits"]]
    sizes = [o.devices for o in outcomes if o.plan == outcome.plan and o.row["fits"]]
    advice = []
    if sizes:
        advice.append(f"this plan fits from {min(sizes)} devices on")
    if others:
        advice.append(f"at {outcome.devices} devices these fit: {', '.join(others)}")
    if not advice:
        advice.append("no plan of this scenario fits at this size")
    return f"needs {written(need, 'bytes')} of {written(have, 'bytes')} ({parts}); {'; '.join(advice)}"
