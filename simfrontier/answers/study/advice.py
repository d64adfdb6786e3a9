"""Advice on a simulated plan: a grid that was left at its default, and settings with which the plan would fit into
memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simfrontier.answers.study.schedule_cache import schedule_of_case
from simfrontier.base.errors import InputError
from simfrontier.base.units import written
from simfrontier.core.plan import Options, TensorOptions
from simfrontier.core.program import peak_bytes as fullest
from simfrontier.core.workload import num_blocks
from simfrontier.inputs.scenario import Case, Scenario

MUCH = 0.5  # of the memory that a plan needs: what a setting must save to be worth a word
ALIKE = 1.1  # memory with another setting over the least that any setting leaves
MOST_GRIDS = 12  # that are tried until one fits


def shortage(peak_bytes: float, capacity_bytes: float, at_peak: Mapping[str, int]) -> str:
    """Return, in words, the memory that a plan needs and has, and the two kinds of tensors that take most of it."""
    largest = sorted(at_peak.items(), key=lambda item: -item[1])[:2]
    parts = ", ".join(f"{name} {written(size, 'bytes')}" for name, size in largest)
    return f"needs {written(peak_bytes, 'bytes')} of {written(capacity_bytes, 'bytes')} ({parts})"


def advice_on(scenario: Scenario, case: Case, peak_bytes: float, at_peak: Mapping[str, int]) -> tuple[str, ...]:
    """Return advice, in words, on a case that needs `peak_bytes` per device (`at_peak`: by kind of tensor); empty if it
    fits and its grid was set explicitly.
    """
    excess = peak_bytes - _capacity(scenario, case)
    parts = [_grid(scenario, case, excess <= 0)]
    if excess > 0 and at_peak.get("activations", 0) >= min(excess, MUCH * peak_bytes):
        parts.append(_leaner(scenario, case, peak_bytes))
    return tuple(filter(None, parts))


def _grid(scenario: Scenario, case: Case, fits: bool) -> str:
    """Return the advice that a tensor-parallel plan has no grid because none was set, with a grid to try: as many
    tensor ranks within a node as the model can be divided by, and as many stages as its memory requires.
    """
    options = case.options
    if not isinstance(options, TensorOptions) or case.devices == 1:
        return ""
    axes = (*(axis for axis, _ in reversed(options.inside)), "pipeline")
    if case.name in scenario.of(case.name, case.devices).searches or options.model_fields_set & {*axes, "expert"}:
        return ""
    grids = list(_grids(scenario, case, axes[0]))
    capacity = _capacity(scenario, case)
    fitting = (grid for grid in grids if fits or _need(scenario, case, grid) <= capacity)
    grid = next(fitting, next(iter(grids), {}))
    tried = " ".join(f"--set plans.{case.name}.{axis}={count}" for axis, count in grid.items())
    return f"{', '.join(f'{axis} = 1' for axis in axes)} (the default){f'; try {tried}' if tried else ''}"


def _grids(scenario: Scenario, case: Case, axis: str) -> Iterator[dict[str, int]]:
    """Yield grids of one axis and stages on which the case can run, the fewest stages first."""
    per_node = scenario.machine.devices_per_node
    widths = [width for width in range(min(per_node, case.devices), 1, -1) if per_node % width == 0]
    width = next((width for width in widths if _changed(scenario, case, {axis: width}) is not None), None)
    if width is None:
        return
    yield {axis: width}
    layers = num_blocks(case.shape)
    stages = [count for count in range(2, layers + 1) if layers % count == 0]
    for count in stages[: MOST_GRIDS - 1]:
        if _changed(scenario, case, {axis: width, "pipeline": count}) is not None:
            yield {axis: width, "pipeline": count}


def _leaner(scenario: Scenario, case: Case, need: float) -> str:
    """Return the setting of attention or checkpointing, or both, that reduces the memory of a case most, and the
    remaining need; empty if none reduces it. Preferred are the fewest settings with which the case fits or that save as
    much as all together.
    """
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
    """Return bytes of a device that the plan's stack leaves to tensors."""
    return scenario.of(case.name, case.devices).machine.device.hbm_bytes


def _need(scenario: Scenario, case: Case, changes: Mapping[str, Any]) -> float:
    """Return the bytes on the fullest device with other plan options; infinite if these options are invalid."""
    changed = _changed(scenario, case, changes)
    if changed is None:
        return float("inf")
    try:
        return fullest(schedule_of_case(scenario, changed)).num_bytes
    except InputError:
        return float("inf")


def _changed(scenario: Scenario, case: Case, changes: Mapping[str, Any]) -> Case | None:
    """Return the case with other plan options; None if these options are invalid."""
    options: Options = case.options.model_copy(update=changes)
    try:
        batch = scenario.at(case.devices).shared_batch(case.devices)
        return scenario.of(case.name, case.devices).case_with(case.name, options, case.devices, batch)
    except InputError:
        return None
