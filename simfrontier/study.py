"""A study: every plan of a scenario at every size, simulated; rows for the table and what the page draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simfrontier.analysis import (
    BOUNDARIES,
    PARTS,
    Exposure,
    Gathers,
    NodeLinks,
    Softmaxes,
    Stages,
    band_of,
    bounds,
    exposure,
    gathers,
    node_links,
    sampled_step_s,
    softmaxes,
    stages_of,
    step_needs,
    traffic,
)
from simfrontier.arrays import Floats
from simfrontier.errors import InputError, SimfrontierError
from simfrontier.plan import build, rebound, rebound_program, structure_of
from simfrontier.scenario import Case, Scenario
from simfrontier.schedule import ExpandedProgram, Peak, Schedule, check, check_sizes, digest, expand
from simfrontier.simulation import Fidelity, MemoryTimeline, SimulatedStep, fullest, simulate_step
from simfrontier.trace import Trace
from simfrontier.units import written
from simfrontier.workload import step_flops

if TYPE_CHECKING:
    import pandas as pd

Cell = str | int | float | bool
Row = dict[str, Cell]

COLUMNS = (
    "scenario",
    "plan",
    "devices",
    "nodes",
    "micro_batch",
    "grad_accum",
    "step_time_s",
    "compute_time_s",
    "exposed_comm_s",
    "tflops_per_device",
    "mfu",
    "tokens_per_s",
    "bytes_package",
    "bytes_intra_node",
    "bytes_inter_node",
    "peak_memory_bytes",
    "fits",
    "scaling_efficiency",
    "speedup",
)
BAND = ("step_time_p05_s", "step_time_p50_s", "step_time_p95_s")  # of sampled steps: low end, median, high end
MORE_COLUMNS = (
    *(f"exposed_{part}_s" for part in ("inter_node", "intra_node", "package", "codec", "idle")),
    *(f"bytes_{part}" for part in PARTS[1:]),
    "need_inter_node",
    "bound_s",
    "rank_classes",
    "fidelity",
    "schedule_digest",
    "mesh",
    "note",
    *BAND,
)
TIMES = (
    "step_time_s",
    "compute_time_s",
    "exposed_comm_s",
    "tflops_per_device",
    "mfu",
    "tokens_per_s",
    "bound_s",
    *(f"exposed_{part}_s" for part in ("inter_node", "intra_node", "package", "codec", "idle")),
    *BAND,
)


@dataclass(frozen=True, kw_only=True)
class PlanOutcome:
    """One plan at one size. `trace`, `links`, `stages` (of a pipeline) and `memory` are kept only where they are drawn.
    `gathers`: of a model that keeps what all ranks fill. `softmaxes`: of a scenario that names their kernels or ways.

    `samples_s`: sampled step times, paired with those of other plans at the same size (see analysis.uncertainty); None
    where the plan does not fit, nothing is known to be uncertain, or no samples are wanted.
    """

    plan: str
    devices: int
    row: Row
    exposure: Exposure
    memory: MemoryTimeline | None
    at_peak: Mapping[str, int]
    trace: Trace | None
    links: NodeLinks | None
    stages: Stages | None
    gathers: Gathers | None
    softmaxes: Softmaxes | None
    samples_s: Floats | None = field(compare=False)


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


def schedule_of(scenario: Scenario, plan: str, devices: int) -> Schedule:
    """The schedule that a plan of a scenario means at a size. Raises InputError where one of its moves cannot be
    made."""
    return schedule_of_case(scenario, scenario.case(plan, devices))


def schedule_of_case(scenario: Scenario, case: Case) -> Schedule:
    """The schedule of a case of a scenario; InputError as above."""
    try:
        return build(case.workload, case.plan, case.mesh, case.engine, case.grad_accum)
    except InputError as error:
        raise InputError(f"{scenario.where}: plans.{case.name}: at {case.devices} devices: {error}") from None


@dataclass(frozen=True, kw_only=True)
class BuiltSchedule:
    """A checked schedule, with its expansion where it has one role, and the peak memory of each role where it has
    several."""

    schedule: Schedule
    program: ExpandedProgram | None
    peaks: tuple[Peak, ...] = ()


@dataclass
class ScheduleCache:
    """Builds and checks schedules; what has one role and differs only in mesh sizes and batch is built once and
    rebound."""

    known: dict[Hashable, BuiltSchedule] = field(default_factory=dict)

    def get(self, scenario: Scenario, plan: str, devices: int) -> BuiltSchedule:
        """The schedule of a plan at a size. Raises InputError where one of its moves cannot be made, and
        SimfrontierError if its check finds anything."""
        return self.of_case(scenario, scenario.case(plan, devices))

    def of_case(self, scenario: Scenario, case: Case) -> BuiltSchedule:
        """The schedule of a case of a scenario; errors as above."""
        work = case.workload
        structure: Hashable = structure_of(work, case.plan, case.mesh, case.engine, case.grad_accum)
        if case.plan.pipeline is not None:
            structure = structure, case.mesh, work.batch
        like = self.known.get(structure)
        program: ExpandedProgram | None = None
        peaks: tuple[Peak, ...] = ()
        if like is None:
            schedule = schedule_of_case(scenario, case)
            if len(schedule.roles) == 1:
                program = expand(schedule, schedule.roles[0])
            report = check(schedule, programs=None if program is None else (program,))
            peaks = report.peaks if program is None else ()
        elif (like.schedule.mesh, like.schedule.meta["batch"]) == (case.mesh, work.batch):
            return like
        else:
            schedule = rebound(like.schedule, case.mesh, work.batch)
            if like.program is not None:
                program = rebound_program(like.program, schedule)
            report = check_sizes(schedule)
        if report.findings:
            where = f"{scenario.where}: plans.{case.name}: at {case.devices} devices"
            raise SimfrontierError(f"{where}: the schedule is not sound: {report.findings[0]}")
        built = BuiltSchedule(schedule=schedule, program=program, peaks=peaks)
        self.known.setdefault(structure, built)
        return built


def simulated(scenario: Scenario, built: BuiltSchedule, fidelity: Fidelity, exact: bool = False) -> SimulatedStep:
    """One step of a schedule on the scenario's machine, as it is today. Raises InputError where the machine cannot run
    it."""
    schedule = built.schedule
    try:
        return simulate_step(
            schedule,
            scenario.machine,
            scenario.library,
            fidelity,
            scenario.perturbation,
            exact,
            scenario.file.run.placement,
            built.program,
        )
    except InputError as error:
        where = f"{scenario.where}: plans.{schedule.meta['plan']}: at {schedule.mesh.num_ranks} devices"
        raise InputError(f"{where}: {error}") from None


def run_case(
    scenario: Scenario,
    plan: str,
    devices: int,
    fidelity: Fidelity,
    exact: bool,
    drawn: bool,
    schedule_cache: ScheduleCache,
) -> PlanOutcome:
    """Build, check and simulate one plan at one size; `drawn` keeps what the page needs for pictures."""
    case = scenario.case(plan, devices)
    built = schedule_cache.of_case(scenario, case)
    step = simulated(scenario, built, fidelity, exact)
    memory = fullest(step, built.peaks)
    digested = digest(built.schedule)
    row, wanted = _row(scenario, case, step, memory, fidelity, digested), scenario.file.uncertainty
    samples_s = sampled_step_s(step, plan, wanted.samples, wanted.seed) if row["fits"] else None
    row["mesh"] = " × ".join(f"{axis} {case.mesh[axis]}" for axis in case.mesh.live(case.mesh.names))
    row.update(zip(BAND, ("", "", "") if samples_s is None else band_of(samples_s), strict=True))
    _refuse_endless(row)
    trace = step.trace(digested, f"{scenario.name} {plan} {devices}", (step.critical,)) if drawn else None
    return PlanOutcome(
        plan=plan,
        devices=devices,
        row=row,
        exposure=exposure(step),
        memory=memory if drawn else None,
        at_peak=memory.at_peak,
        trace=trace,
        links=node_links(step) if drawn else None,
        stages=stages_of(step, built.peaks, case.chunks) if drawn else None,
        gathers=gathers(step),
        softmaxes=softmaxes(step) if scenario.names_softmaxes else None,
        samples_s=samples_s,
    )


def _refuse_endless(row: Row) -> None:
    """Raise InputError for a result that is no finite number: constants of machine or library are beyond all sense."""
    for column, cell in row.items():
        if isinstance(cell, float) and not math.isfinite(cell):
            raise InputError(
                f"{row['plan']} on {row['devices']}: {column}: got {cell}; allowed: constants of the machine and the "
                "library that give a finite number"
            )


def _row(
    scenario: Scenario, case: Case, step: SimulatedStep, memory: MemoryTimeline, fidelity: Fidelity, digested: str
) -> Row:
    devices, machine = case.devices, scenario.machine
    moved, spent = traffic(step), exposure(step)
    flops = step_flops(case.shape, case.samples, case.checkpointing)
    useful = step_flops(case.shape, case.samples, recomputed=False)
    row: Row = {
        "scenario": scenario.name,
        "plan": case.name,
        "devices": devices,
        "nodes": step.cluster.fabric.num_nodes,
        "micro_batch": case.micro_batch,
        "grad_accum": case.grad_accum,
        "step_time_s": step.step_s,
        "compute_time_s": step.compute_s,
        "exposed_comm_s": step.step_s - step.compute_s,
        "tflops_per_device": flops / step.step_s / devices / 1e12,
        "mfu": useful / step.step_s / devices / scenario.at(devices).peak_flops_per_s,
        "tokens_per_s": case.samples * case.shape.sequence / step.step_s,
        **{f"bytes_{boundary}": moved.total(boundary) for boundary in BOUNDARIES},
        "peak_memory_bytes": memory.peak_bytes,
        "fits": memory.peak_bytes <= machine.device.hbm_bytes,
        "bound_s": bounds(step).step_s,
        "exposed_inter_node_s": spent.inter_node,
        "exposed_intra_node_s": spent.intra_node,
        "exposed_package_s": spent.package,
        "exposed_codec_s": spent.codec,
        "exposed_idle_s": spent.idle,
        **{f"bytes_{part}": sum(moved.total(boundary, part) for boundary in BOUNDARIES) for part in PARTS[1:]},
        "need_inter_node": _need(scenario, step),
        "rank_classes": step.cluster.folding.num_rank_classes,
        "fidelity": fidelity,
        "schedule_digest": digested,
        "note": "",
    }
    return row


def _need(scenario: Scenario, step: SimulatedStep) -> Cell:
    """What any algorithm must move between nodes; counted only where a mesh's node is a node, placed as a block."""
    num_nodes = step.cluster.fabric.num_nodes
    if num_nodes == 1:
        return 0.0
    if scenario.file.run.placement != "block" or not step.cluster.mesh_is_machine:
        return ""
    return float(step_needs(step.schedule).total(step.schedule.mesh.names[0])) * num_nodes


def run_study(
    scenario: Scenario,
    fidelity: Fidelity | None = None,
    exact: bool = False,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> Study:
    """Simulate every plan at every size. `progress` is called with a short text as each case ends."""
    chosen = fidelity or scenario.file.run.fidelity
    outcomes: list[PlanOutcome] = []
    for several in _mapped([(scenario, plan, chosen, exact) for plan in scenario.plans], jobs, progress):
        outcomes += several
    return Study(scenario=scenario, fidelity=chosen, outcomes=tuple(_completed(scenario, outcomes)))


def _stocked(scenario: Scenario, plan: str) -> ScheduleCache:
    """A cache in which a plan was built once for every structure that it has: what cannot be built is refused here."""
    schedule_cache, built = ScheduleCache(), set()
    for devices in scenario.file.run.devices:
        case = scenario.case(plan, devices)
        structure = (case.shape.name, case.grad_accum, case.mesh.live(case.mesh.names))
        if structure not in built:
            schedule_cache.of_case(scenario, case)
            built.add(structure)
    return schedule_cache


def _run_plan(
    scenario: Scenario,
    plan: str,
    fidelity: Fidelity,
    exact: bool,
    schedule_cache: ScheduleCache | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> list[PlanOutcome]:
    """One plan at every size; the largest is drawn."""
    sizes, schedule_cache, outcomes = (
        scenario.file.run.devices,
        _stocked(scenario, plan) if schedule_cache is None else schedule_cache,
        [],
    )
    for devices in sizes:
        outcomes.append(run_case(scenario, plan, devices, fidelity, exact, devices == max(sizes), schedule_cache))
        progress(f"{plan} on {devices}")
    return outcomes


def _mapped(
    plans: list[tuple[Scenario, str, Fidelity, bool]], jobs: int, progress: Callable[[str], None]
) -> Iterator[list[PlanOutcome]]:
    """The plans' outcomes in order, one process per plan where there are several jobs."""
    if min(jobs, len(plans)) <= 1:
        # Every plan is built before the first is simulated, so that one that cannot be built is refused at once.
        schedule_caches = [_stocked(scenario, plan) for scenario, plan, _, _ in plans]
        yield from (
            _run_plan(*plan, schedule_cache, progress)
            for plan, schedule_cache in zip(plans, schedule_caches, strict=True)
        )
        return
    from simfrontier.pool import Pool

    with Pool(min(jobs, len(plans))) as pool:
        for outcomes in pool.in_order(_run_plan, plans):
            for outcome in outcomes:
                progress(f"{outcome.plan} on {outcome.devices}")
            yield outcomes


def _completed(scenario: Scenario, outcomes: list[PlanOutcome]) -> list[PlanOutcome]:
    """Rows with the columns that compare rows: efficiency against the plan's smallest size, speed-up against the first
    plan."""
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
