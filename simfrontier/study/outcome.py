"""One plan at one size, built, checked and simulated: its row of results, and what the page draws of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, fields, replace
from typing import TYPE_CHECKING

from simfrontier.analysis import (
    BOUNDARIES,
    DRAWN_PARTS,
    PARTS,
    Exposure,
    Gathers,
    NodeLinks,
    Traffic,
    band_of,
    bounds,
    exposure,
    gathers,
    link_use,
    node_links,
    sampled_step_s,
    sampled_waits,
    step_trace,
    traffic,
)
from simfrontier.arrays import Floats
from simfrontier.errors import InputError
from simfrontier.records import dataclass
from simfrontier.scenario import Case, Scenario
from simfrontier.simulation import Fidelity, MemoryTimeline, SimulatedStep, fullest, step_note
from simfrontier.stack import NONE as NO_STACK
from simfrontier.study.advice import advice_on
from simfrontier.study.over_steps import different, mean_row
from simfrontier.study.schedule_cache import BuiltSchedule, ScheduleCache
from simfrontier.study.step import simulated
from simfrontier.trace import TraceFile

if TYPE_CHECKING:
    from simfrontier.analysis import LinkUse, Softmaxes, Stages, Waits

Cell = str | int | float | bool
Row = dict[str, Cell]

EXPOSED = tuple(each.name for each in fields(Exposure))[1:]  # all parts of a step but compute

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
BAND = ("step_time_p05_s", "step_time_p50_s", "step_time_p95_s")  # of sampled steps: 90 % interval and median
NOMINAL = {  # columns of the median step, and those of the step without variation
    "step_time_s": "step_time_nominal_s",
    "tflops_per_device": "tflops_per_device_nominal",
    "mfu": "mfu_nominal",
    "tokens_per_s": "tokens_per_s_nominal",
}
NOMINAL_RATES = tuple(NOMINAL.values())[1:]
RATES = ("tflops_per_device", "mfu", "tokens_per_s", "tokens_per_s_per_device", "hfu", "neox_tflops_per_device")
MORE_COLUMNS = (
    *(f"exposed_{part}_s" for part in EXPOSED),
    *(f"bytes_{part}" for part in PARTS[1:]),
    "need_inter_node",
    "bound_s",
    "rank_classes",
    "fidelity",
    "schedule_digest",
    "mesh",
    "note",
    *BAND,
    *NOMINAL.values(),
    "tokens_per_s_per_device",
    "hfu",
    "neox_tflops_per_device",
    "exposed_variation_s",
    "stack",
)
TIMES = (
    "step_time_s",
    "compute_time_s",
    "exposed_comm_s",
    "tflops_per_device",
    "mfu",
    "tokens_per_s",
    "bound_s",
    *(f"exposed_{part}_s" for part in EXPOSED),
    *BAND,
    *NOMINAL.values(),
    "tokens_per_s_per_device",
    "hfu",
    "neox_tflops_per_device",
    "exposed_variation_s",
)


@dataclass(frozen=True, kw_only=True)
class PlanOutcome:
    """One plan at one size. `links`, `stages` (of a pipeline) and `memory` are kept only where they are drawn, `trace`
    (the critical rank first) and `link_use` (of links by name) there if the plan fits. `gathers`: of a model that keeps
    what all ranks fill. `softmaxes`: of a scenario that names their kernels or ways.

    `samples_s`: sampled step times, paired with those of other plans at the same size (see analysis.uncertainty); None
    where the plan does not fit, nothing is known to be uncertain, or no samples are wanted. `advice`: what to try with
    a plan that does not fit, or whose grid was left at its default. `waits`: waiting in these samples, where the plan
    is drawn and devices are known to differ.
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
    """Build, check and simulate one plan at one size: as many steps as the scenario says, of which those that differ
    are simulated, and the slowest is shown; `drawn` keeps what the page needs for pictures."""
    case = scenario.case(plan, devices)
    built = schedule_cache.of_case(scenario, case)
    counts = dict(different(scenario.file.perturbation, scenario.file.run.steps))
    here = scenario.of(plan, devices)
    steps = {number: simulated(here, built, fidelity, exact, number) for number in counts}
    shown = max(steps, key=lambda number: steps[number].step_s)
    outcome = outcome_of(scenario, case, built, steps[shown], drawn)
    if len(steps) > 1:
        rows = [(number, counts[number], outcome_of(scenario, case, built, step).row) for number, step in steps.items()]
        outcome = replace(
            outcome,
            row=mean_row(rows, shown, TIMES, (*RATES, *NOMINAL_RATES)) | dict.fromkeys(BAND, ""),
            samples_s=None,
            waits=None,
        )
    return advised(scenario, case, outcome)


def advised(scenario: Scenario, case: Case, outcome: PlanOutcome) -> PlanOutcome:
    """The outcome of a case with advice on its grid and its memory."""
    return replace(outcome, advice=advice_on(scenario, case, int(outcome.row["peak_memory_bytes"]), outcome.at_peak))


def outcome_of(
    scenario: Scenario, case: Case, built: BuiltSchedule, step: SimulatedStep, drawn: bool = False
) -> PlanOutcome:
    """What is kept of a case's simulated step."""
    plan, devices = case.name, case.devices
    memory = fullest(step, built.peaks)
    spent, wanted, moved = exposure(step), scenario.file.uncertainty, traffic(step)
    row = _row(scenario, case, built, step, memory, spent, moved)
    num_samples = wanted.samples if step.may_be_sampled and row["fits"] else 0
    waits = sampled_waits(step, plan, num_samples, wanted.seed) if drawn else None
    samples_s = sampled_step_s(step, plan, num_samples, wanted.seed) if waits is None else waits.step_s
    row["mesh"] = " × ".join(f"{axis} {case.mesh[axis]}" for axis in case.mesh.live(case.mesh.names))
    row.update({nominal: row[column] for column, nominal in NOMINAL.items()})
    row.update(zip(BAND, ("", "", "") if samples_s is None else band_of(samples_s), strict=True))
    if samples_s is not None:
        row.update(at_median(row))
    _refuse_endless(row)
    return PlanOutcome(
        plan=plan,
        devices=devices,
        row=row,
        exposure=spent,
        memory=memory if drawn else None,
        at_peak=memory.at_peak,
        links=node_links(step, moved) if drawn else None,
        stages=_stages(step, built, case.chunks) if drawn and len(step.roles) > 1 else None,
        gathers=gathers(step),
        softmaxes=_softmaxes(step) if scenario.names_softmaxes else None,
        samples_s=samples_s,
        waits=waits,
        trace=_trace(scenario, step, built.digest, moved) if drawn and row["fits"] else None,
        link_use=link_use(step, moved, "name", DRAWN_PARTS) if drawn and row["fits"] else None,
    )


def _trace(scenario: Scenario, step: SimulatedStep, digested: str, moved: Traffic) -> TraceFile:
    title = f"{scenario.name} {step.schedule.meta['plan']} {step.schedule.mesh.num_ranks}"
    return step_trace(step, digested, title, moved)


def _stages(step: SimulatedStep, built: BuiltSchedule, chunks: int) -> Stages | None:
    from simfrontier.analysis import stages_of

    return stages_of(step, built.peaks, chunks)


def _softmaxes(step: SimulatedStep) -> Softmaxes | None:
    from simfrontier.analysis import softmaxes

    return softmaxes(step)


def _refuse_endless(row: Row) -> None:
    """Raise InputError for a result that is no finite number: constants of machine or library are beyond all sense."""
    for column, cell in row.items():
        if isinstance(cell, float) and not math.isfinite(cell):
            raise InputError(
                f"{row['plan']} on {row['devices']}: {column}: got {cell}; allowed: constants of the machine and the "
                "library that give a finite number"
            )


def _row(
    scenario: Scenario,
    case: Case,
    built: BuiltSchedule,
    step: SimulatedStep,
    memory: MemoryTimeline,
    spent: Exposure,
    moved: Traffic,
) -> Row:
    devices, here = case.devices, scenario.of(case.name, case.devices)
    peak = devices * here.peak_flops_per_s
    tokens = case.samples * case.shape.sequence
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
        "tflops_per_device": case.model_flops / step.step_s / devices / 1e12,
        "mfu": case.model_flops / step.step_s / peak,
        "tokens_per_s": tokens / step.step_s,
        **{f"bytes_{boundary}": moved.total(boundary) for boundary in BOUNDARIES},
        "peak_memory_bytes": memory.peak_bytes,
        "fits": memory.peak_bytes <= step.cluster.machine.device.hbm_bytes,
        "bound_s": bounds(step).step_s,
        **{f"exposed_{part}_s": getattr(spent, part) for part in EXPOSED},
        **{f"bytes_{part}": sum(moved.total(boundary, part) for boundary in BOUNDARIES) for part in PARTS[1:]},
        "need_inter_node": _need(scenario, built, step),
        "rank_classes": step.cluster.folding.num_rank_classes,
        "fidelity": step.fidelity,
        "schedule_digest": built.digest,
        "note": step_note(step),
        "tokens_per_s_per_device": tokens / step.step_s / devices,
        "hfu": case.hardware_flops / step.step_s / peak,
        "neox_tflops_per_device": "" if case.neox_flops is None else case.neox_flops / step.step_s / devices / 1e12,
        "exposed_variation_s": 0.0,
        "stack": NO_STACK if here.stack is None else here.stack.name,
    }
    return row


def at_median(row: Row) -> Row:
    """The columns of a row of the nominal step as they are for the median of its samples: rates are as the inverse of
    the time, and what the median step takes longer than the nominal one is exposed (`exposed_variation_s`)."""
    nominal_s, median_s = float(row["step_time_nominal_s"]), float(row[BAND[1]])
    rates = {name: float(row[name]) * nominal_s / median_s for name in RATES if row[name] != ""}
    more_s = median_s - nominal_s
    exposed_s = float(row["exposed_comm_s"]) + more_s
    return {**rates, "step_time_s": median_s, "exposed_comm_s": exposed_s, "exposed_variation_s": more_s}


def _need(scenario: Scenario, built: BuiltSchedule, step: SimulatedStep) -> Cell:
    """What any algorithm must move between nodes; counted only where a mesh's node is a node, placed as a block."""
    num_nodes = step.cluster.fabric.num_nodes
    if num_nodes == 1:
        return 0.0
    if scenario.file.run.placement != "block" or not step.cluster.mesh_is_machine:
        return ""
    return float(built.needs.total(step.schedule.mesh.names[0])) * num_nodes
