"""Studies: one plan at one size, built, checked and simulated, with its results row and data for plots; every plan of a
scenario at every size, and comparisons between plans.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from simfrontier.answers.step import (
    DRAWN_PARTS,
    Exposure,
    Gathers,
    LinkUse,
    NodeLinks,
    Softmaxes,
    Stages,
    Waits,
    gathers,
    link_use,
    node_links,
    softmaxes,
    stages_of,
    step_trace,
)
from simfrontier.answers.study.advice import advice_on, shortage
from simfrontier.answers.study.columns import BAND, EMPTY_IF_TOO_BIG, RATE, RESULTS, Row, different, mean_row, row_of
from simfrontier.answers.study.schedule_cache import BuiltSchedule, ScheduleCache
from simfrontier.answers.study.simulated_case import SimulatedCase, simulated
from simfrontier.base.arrays import Floats
from simfrontier.base.errors import InputError
from simfrontier.base.workers import Local, PerProcess, Workers
from simfrontier.core.engine import Fidelity, MemoryTimeline, SimulatedStep
from simfrontier.core.trace import TraceFile
from simfrontier.inputs.scenario import Case, Scenario

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class PlanOutcome:
    """Outcome of one plan at one size. `links`, `stages` (of a pipeline) and `memory` are kept only if they are
    plotted; `trace` (the critical rank first) and `link_use` (by link name) if they are plotted and the plan fits into
    memory. `gathers`: only for a model with state that all ranks contribute to. `softmaxes`: only for a scenario that
    names their kernels or methods.

    `samples_s`: sampled step times, paired with those of other plans at the same size (answers.step.uncertainty); None
    if the plan does not fit, no uncertainty is known, or no samples are requested. `advice`: what to try with a plan
    that does not fit, or whose grid was left at its default. `waits`: waiting times in these samples, if the plan is
    plotted and variation between devices is known.
    """

    plan: str
    devices: int
    row: Row
    exposure: Exposure
    memory: MemoryTimeline | None
    at_peak: Mapping[str, int]
    links: NodeLinks | None
    stages: Stages | None
    gathers: Gathers | None
    softmaxes: Softmaxes | None
    samples_s: Floats | None = field(compare=False)
    advice: tuple[str, ...] = ()
    waits: Waits | None = field(default=None, compare=False)
    trace: TraceFile | None = field(default=None, compare=False)
    link_use: LinkUse | None = field(default=None, compare=False)


def run_case(
    scenario: Scenario,
    plan: str,
    devices: int,
    fidelity: Fidelity,
    exact: bool,
    drawn: bool,
    schedule_cache: ScheduleCache,
) -> PlanOutcome:
    """Build, check and simulate one plan at one size. Of the scenario's steps the distinct ones are simulated, and the
    slowest is shown; `drawn`: keep the data that plots need.
    """
    case = scenario.case(plan, devices)
    built = schedule_cache.of_case(scenario, case)
    counts = dict(different(scenario.file.perturbation, scenario.file.run.steps))
    here = scenario.of(plan, devices)
    steps = {number: simulated(here, built, fidelity, exact, number) for number in counts}
    shown = max(steps, key=lambda number: steps[number].step_s)
    outcome = outcome_of(scenario, case, built, steps[shown], drawn)
    if len(steps) > 1:
        rows = [(number, counts[number], outcome_of(scenario, case, built, step).row) for number, step in steps.items()]
        outcome = replace(outcome, row=mean_row(rows, shown), samples_s=None, waits=None)
    return advised(scenario, case, outcome)


def advised(scenario: Scenario, case: Case, outcome: PlanOutcome) -> PlanOutcome:
    """Return the outcome of a case, with advice on its grid and its memory added."""
    return replace(outcome, advice=advice_on(scenario, case, int(outcome.row["peak_memory_bytes"]), outcome.at_peak))


def _stages_of(case: Case, built: BuiltSchedule, step: SimulatedStep) -> Stages | None:
    pipeline = case.plan.pipeline
    return None if pipeline is None else stages_of(step, built.peaks, pipeline.chunks, pipeline.splits_backward)


def outcome_of(
    scenario: Scenario, case: Case, built: BuiltSchedule, step: SimulatedStep, drawn: bool = False
) -> PlanOutcome:
    """Return the results of a case's simulated step that are kept."""
    simulated_case = SimulatedCase(scenario=scenario, case=case, built=built, step=step, with_waits=drawn)
    memory, moved = simulated_case.memory, simulated_case.traffic
    row = row_of(simulated_case)
    _refuse_endless(row)
    is_shown = drawn and bool(row["fits"])
    title = f"{scenario.name} {step.schedule.meta['plan']} {step.schedule.mesh.num_ranks}"
    return PlanOutcome(
        plan=case.name,
        devices=case.devices,
        row=row,
        exposure=simulated_case.exposure,
        memory=memory if drawn else None,
        at_peak=memory.at_peak,
        links=node_links(step, moved) if drawn else None,
        stages=_stages_of(case, built, step) if drawn else None,
        gathers=gathers(step),
        softmaxes=softmaxes(step) if scenario.names_softmaxes else None,
        samples_s=simulated_case.samples_s,
        waits=simulated_case.waits,
        trace=step_trace(step, built.digest, title, moved) if is_shown else None,
        link_use=link_use(step, moved, "name", DRAWN_PARTS) if is_shown else None,
    )


def _refuse_endless(row: Row) -> None:
    """Raise InputError if a result is not a finite number: numbers of the machine or library are far outside a sensible
    range.
    """
    for column, cell in row.items():
        if isinstance(cell, float) and not math.isfinite(cell):
            raise InputError(
                f"{row['plan']} on {row['devices']}: {column}: got {cell}; allowed: constants of the machine and the "
                "library that give a finite number"
            )


@dataclass(frozen=True, kw_only=True)
class Study:
    """All outcomes of a scenario, in the scenario's order of plans, then sizes; rows are complete."""

    scenario: Scenario
    fidelity: Fidelity
    outcomes: tuple[PlanOutcome, ...]

    def of(self, plan: str) -> list[PlanOutcome]:
        """Return the outcomes of one plan, in the scenario's order of sizes."""
        return [outcome for outcome in self.outcomes if outcome.plan == plan]

    def frame(self) -> pd.DataFrame:
        """Return the rows as a table for notebooks; cells that are empty because a plan does not fit into memory are
        NaN.
        """
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
    drawn: bool = True,
) -> Study:
    """Simulate every plan at every size. `progress` is called with a short text when each case ends. `workers`:
    simulate the cases in parallel (None: in this process); `schedules`: cache of built schedules, which is read and
    filled. `drawn`: keep at the largest size what plots need.
    """
    chosen = fidelity or scenario.file.run.fidelity
    workers, schedules = workers or Workers(Local()), schedules or PerProcess(ScheduleCache)
    # Every plan is built before the first is simulated, so that one that cannot be built is refused at once.
    for _ in workers.in_order(_stock, ((scenario, plan, schedules) for plan in scenario.plans)):
        pass
    outcomes: list[PlanOutcome] = []
    calls = (
        (scenario, plan, devices, chosen, exact, schedules, drawn)
        for plan in scenario.plans
        for devices in scenario.file.run.devices
    )
    for outcome in workers.in_order(_outcome, calls):
        progress(f"{outcome.plan} on {outcome.devices}")
        outcomes.append(outcome)
    return Study(scenario=scenario, fidelity=chosen, outcomes=tuple(completed(scenario, outcomes)))


def _stock(scenario: Scenario, plan: str, schedules: PerProcess[ScheduleCache]) -> None:
    """Build a plan once for each of its schedule structures, to fill the cache. Raises InputError for what cannot be
    built.
    """
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
    drawn: bool,
) -> PlanOutcome:
    """Return the outcome of one plan at one size, if `drawn` with plot data for the largest size."""
    drawn = drawn and devices == max(scenario.file.run.devices)
    return run_case(scenario, plan, devices, fidelity, exact, drawn, schedules.here)


def completed(scenario: Scenario, outcomes: list[PlanOutcome]) -> list[PlanOutcome]:
    """Return the outcomes with the columns that compare rows: efficiency against the plan's smallest size, speed-up
    against the first plan, and the 90 % interval of the rate by published runs."""
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
        row[f"{RATE}_low"], row[f"{RATE}_high"] = _interval(scenario, row)
        if not row["fits"]:
            row["note"] = _too_big(scenario, outcome, outcomes)
            row.update(dict.fromkeys(EMPTY_IF_TOO_BIG, ""))
        for key in ("scaling_efficiency", "speedup"):
            if isinstance(row[key], float) and math.isnan(row[key]):  # type: ignore[arg-type]
                row[key] = ""
    return outcomes


def _interval(scenario: Scenario, row: Row) -> tuple[float, float]:
    """Return the 90 % interval of a row's rate: as far as left-out published runs are off on such devices, and at least
    as far as the samples reach.
    """
    from simfrontier.answers.accuracy import model_kind_of, step_factor  # whose runs are predicted by this package

    kind = model_kind_of(scenario.at(int(row["devices"])).shape)
    factor = step_factor(scenario.machine.device.peak_flops_per_s, kind)
    rate, step_s = float(row[RATE]), float(row["step_time_s"])
    low, high = (rate * step_s / float(row[end] or step_s) for end in (BAND[2], BAND[0]))
    return min(low, rate / factor), max(high, rate * factor)


def _too_big(scenario: Scenario, outcome: PlanOutcome, outcomes: list[PlanOutcome]) -> str:
    """Return, in words, a plan's memory shortage, and which plans fit at this size or at which sizes this plan would
    fit.
    """
    need, have = (
        int(outcome.row["peak_memory_bytes"]),
        scenario.of(outcome.plan, outcome.devices).machine.device.hbm_bytes,
    )
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
