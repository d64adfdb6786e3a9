"""One plan at one size, built, checked and simulated: its row of results, and what the page draws of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from simfrontier.answers.step import (
    DRAWN_PARTS,
    Exposure,
    Gathers,
    NodeLinks,
    gathers,
    link_use,
    node_links,
    step_trace,
)
from simfrontier.answers.study.columns import BAND, RESULTS, Column, Row, row_of
from simfrontier.answers.study.schedule_cache import BuiltSchedule, ScheduleCache, schedule_of_case
from simfrontier.answers.study.simulated_case import SimulatedCase, simulated
from simfrontier.base.arrays import Floats
from simfrontier.base.errors import InputError
from simfrontier.base.units import written
from simfrontier.core.engine import Fidelity, MemoryTimeline, SimulatedStep
from simfrontier.core.machine import Perturbation
from simfrontier.core.plan import Options, TensorOptions
from simfrontier.core.program import peak_bytes as fullest
from simfrontier.core.trace import TraceFile
from simfrontier.inputs.scenario import Case, Scenario

if TYPE_CHECKING:
    from simfrontier.answers.step import LinkUse, Softmaxes, Stages, Waits


MOST_LISTED = 6  # times of steps in a note


def different(perturbation: Perturbation, num_steps: int) -> tuple[tuple[int, int], ...]:
    """The steps that differ from all before them, each with how many of the first `num_steps` are alike."""
    if perturbation.calls_differ:
        return tuple((number, 1) for number in range(num_steps))
    last = min(perturbation.last_step + 1, num_steps - 1)
    first_of, count = dict[object, int](), dict[int, int]()
    for number in range(last + 1):
        first = first_of.setdefault(perturbation.states(number), number)
        count[first] = count.get(first, 0) + 1
    count[first_of[perturbation.states(last)]] += num_steps - last - 1  # alike to the end
    return tuple(count.items())


def mean_row(rows: Sequence[tuple[int, int, Row]], shown: int) -> Row:
    """The row of several steps, of (step, how many are like it, its row): that of the step that is shown, with the mean
    of each column over all of them as the column says, and a note of their times."""
    num_steps = sum(count for _, count, _ in rows)
    out = next(dict(row) for number, _, row in rows if number == shown)
    for column in RESULTS:
        cells = [row[column.name] for _, _, row in rows]
        if column.mean and not any(isinstance(cell, str) for cell in cells):
            out[column.name] = _mean(column, [(count, row) for _, count, row in rows], num_steps)
    if len(rows) <= MOST_LISTED:
        each = ", ".join(f"{count} of {written(float(row['step_time_s']), 's')}" for _, count, row in rows)
    else:
        seconds = [float(row["step_time_s"]) for _, _, row in rows]
        each = f"{written(min(seconds), 's')} to {written(max(seconds), 's')}"
    several = f"mean of {num_steps} steps: {each}; shown: step {shown}"
    out["note"] = "; ".join(filter(None, (several, str(out["note"]))))
    return out | dict.fromkeys(BAND, "")


def _mean(column: Column, rows: Sequence[tuple[int, Row]], num_steps: int) -> float:
    """The mean of a column over steps; of a rate all work over all time."""
    if column.mean == "per step":
        return sum(count * float(row[column.name]) for count, row in rows) / num_steps
    step = "step_time_nominal_s" if column.name.endswith("_nominal") else "step_time_s"  # of which it is a rate
    work = sum(count * float(row[column.name]) * float(row[step]) for count, row in rows)
    return work / sum(count * float(row[step]) for count, row in rows)


MUCH = 0.5  # of the memory that a plan needs: what a setting must save to be worth a word
ALIKE = 1.1  # memory with another setting over the least that any setting leaves
MOST_GRIDS = 12  # that are tried until one fits


def shortage(peak_bytes: float, capacity_bytes: float, at_peak: Mapping[str, int]) -> str:
    """What a plan needs that does not fit, and the two kinds of tensors that need most of it."""
    largest = sorted(at_peak.items(), key=lambda item: -item[1])[:2]
    parts = ", ".join(f"{name} {written(size, 'bytes')}" for name, size in largest)
    return f"needs {written(peak_bytes, 'bytes')} of {written(capacity_bytes, 'bytes')} ({parts})"


def advice_on(scenario: Scenario, case: Case, peak_bytes: float, at_peak: Mapping[str, int]) -> tuple[str, ...]:
    """What to try with a case that needs `peak_bytes` on a device, `at_peak` by what they hold, in words; nothing where
    it fits on a chosen grid."""
    excess = peak_bytes - _capacity(scenario, case)
    parts = [_grid(scenario, case, excess <= 0)]
    if excess > 0 and at_peak.get("activations", 0) >= min(excess, MUCH * peak_bytes):
        parts.append(_leaner(scenario, case, peak_bytes))
    return tuple(filter(None, parts))


def _grid(scenario: Scenario, case: Case, fits: bool) -> str:
    """That a tensor-parallel plan has no grid because none was given, and one to try: the most ranks of a node that
    divide the model, with as many stages as its memory takes."""
    options = case.options
    if not isinstance(options, TensorOptions) or case.devices == 1:
        return ""
    axes = (*(axis for axis, _ in reversed(options.inside)), "pipeline")
    if case.name in scenario.of(case.name, case.devices).searches or options.model_fields_set & {*axes}:
        return ""
    grids = list(_grids(scenario, case, axes[0]))
    grid = next((grid for grid in grids if fits or _fits(scenario, case, grid)), next(iter(grids), {}))
    tried = " ".join(f"--set plans.{case.name}.{axis}={count}" for axis, count in grid.items())
    return f"{', '.join(f'{axis} = 1' for axis in axes)} (the default){f'; try {tried}' if tried else ''}"


def _grids(scenario: Scenario, case: Case, axis: str) -> Iterator[dict[str, int]]:
    """Grids of one axis and stages on which the case can run, the fewest stages first."""
    per_node = scenario.machine.devices_per_node
    widths = [width for width in range(min(per_node, case.devices), 1, -1) if per_node % width == 0]
    width = next((width for width in widths if _changed(scenario, case, {axis: width}) is not None), None)
    if width is None:
        return
    yield {axis: width}
    stages = [count for count in range(2, case.shape.num_layers + 1) if case.shape.num_layers % count == 0]
    for count in stages[: MOST_GRIDS - 1]:
        if _changed(scenario, case, {axis: width, "pipeline": count}) is not None:
            yield {axis: width, "pipeline": count}


def _fits(scenario: Scenario, case: Case, options: Mapping[str, Any]) -> bool:
    return _need(scenario, case, options) <= _capacity(scenario, case)


def _leaner(scenario: Scenario, case: Case, need: float) -> str:
    """The setting of attention or checkpointing, or both, that saves most of what a case needs, and what is left;
    nothing where none does. The fewest settings with which it fits, or which leave as little as all together."""
    fused = {"attention": "fused"} if case.attention == "plain" else {}
    full = {"checkpointing": "full"} if case.checkpointing != "full" else {}
    tried = [changes for changes in (fused, full, {**fused, **full}) if changes]
    needs = [(_need(scenario, case, changes), changes) for changes in tried]
    enough = max(_capacity(scenario, case), ALIKE * min((left for left, _ in needs), default=need))
    left, changes = next((each for each in needs if each[0] <= enough), (need, {}))
    if left > max(_capacity(scenario, case), MUCH * need):
        return ""
    own = case.options.model_fields_set
    keys = [f'{f"plans.{case.name}" if key in own else "model"}.{key} = "{value}"' for key, value in changes.items()]
    return f"with {' and '.join(keys)} it needs about {written(left, 'bytes')}"


def _capacity(scenario: Scenario, case: Case) -> float:
    """Bytes of a device that the plan's stack leaves to tensors."""
    return scenario.of(case.name, case.devices).machine.device.hbm_bytes


def _need(scenario: Scenario, case: Case, changes: Mapping[str, Any]) -> float:
    """Bytes on the fullest device with other options of the plan; infinite where they cannot be."""
    changed = _changed(scenario, case, changes)
    if changed is None:
        return float("inf")
    try:
        return fullest(schedule_of_case(scenario, changed)).num_bytes
    except InputError:
        return float("inf")


def _changed(scenario: Scenario, case: Case, changes: Mapping[str, Any]) -> Case | None:
    """The case with other options of the plan; None where they cannot be."""
    options: Options = case.options.model_copy(update=changes)
    try:
        batch = scenario.at(case.devices).shared_batch(case.devices)
        return scenario.of(case.name, case.devices).case_with(case.name, options, case.devices, batch)
    except InputError:
        return None


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
        outcome = replace(outcome, row=mean_row(rows, shown), samples_s=None, waits=None)
    return advised(scenario, case, outcome)


def advised(scenario: Scenario, case: Case, outcome: PlanOutcome) -> PlanOutcome:
    """The outcome of a case with advice on its grid and its memory."""
    return replace(outcome, advice=advice_on(scenario, case, int(outcome.row["peak_memory_bytes"]), outcome.at_peak))


def outcome_of(
    scenario: Scenario, case: Case, built: BuiltSchedule, step: SimulatedStep, drawn: bool = False
) -> PlanOutcome:
    """What is kept of a case's simulated step."""
    simulated_case = SimulatedCase(scenario=scenario, case=case, built=built, step=step, with_waits=drawn)
    memory, moved = simulated_case.memory, simulated_case.traffic
    row = row_of(simulated_case)
    _refuse_endless(row)
    return PlanOutcome(
        plan=case.name,
        devices=case.devices,
        row=row,
        exposure=simulated_case.exposure,
        memory=memory if drawn else None,
        at_peak=memory.at_peak,
        links=node_links(step, moved) if drawn else None,
        stages=_stages(step, built, case.chunks) if drawn and len(step.roles) > 1 else None,
        gathers=gathers(step),
        softmaxes=_softmaxes(step) if scenario.names_softmaxes else None,
        samples_s=simulated_case.samples_s,
        waits=simulated_case.waits,
        trace=_trace(simulated_case) if drawn and row["fits"] else None,
        link_use=link_use(step, moved, "name", DRAWN_PARTS) if drawn and row["fits"] else None,
    )


def _trace(case: SimulatedCase) -> TraceFile:
    step = case.step
    title = f"{case.scenario.name} {step.schedule.meta['plan']} {step.schedule.mesh.num_ranks}"
    return step_trace(step, case.built.digest, title, case.traffic)


def _stages(step: SimulatedStep, built: BuiltSchedule, chunks: int) -> Stages | None:
    from simfrontier.answers.step import stages_of

    return stages_of(step, built.peaks, chunks)


def _softmaxes(step: SimulatedStep) -> Softmaxes | None:
    from simfrontier.answers.step import softmaxes

    return softmaxes(step)


def _refuse_endless(row: Row) -> None:
    """Raise InputError for a result that is no finite number: constants of machine or library are beyond all sense."""
    for column, cell in row.items():
        if isinstance(cell, float) and not math.isfinite(cell):
            raise InputError(
                f"{row['plan']} on {row['devices']}: {column}: got {cell}; allowed: constants of the machine and the "
                "library that give a finite number"
            )
