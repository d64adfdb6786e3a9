"""The columns of results: name, meaning, unit, and how each is computed from a simulated step.

A column without a suffix is of the median step of the samples, `_p05`, `_p50` and `_p95` are the ends and the middle of
90 % of the samples, `_nominal` is the step without variation. An empty cell is "".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeAlias

from simfrontier.answers.step import BOUNDARIES
from simfrontier.answers.study.simulated_case import SimulatedCase
from simfrontier.base.units import written
from simfrontier.core.engine import step_note
from simfrontier.core.machine import Perturbation
from simfrontier.core.machine.stack import NONE as NO_STACK

Cell: TypeAlias = str | int | float | bool
Row: TypeAlias = dict[str, Cell]
Unit: TypeAlias = Literal["s", "bytes", "bytes/s", "flop", "flop/s", "1/s", "share", "count", "number", "text", "truth"]
Better: TypeAlias = Literal["less", "more", ""]
Mean: TypeAlias = Literal["", "per step", "per second"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of results: `title` for tables, `meaning` for documents.

    `of` computes its cell; None where it compares a row with others (see `study.completed`). `better`: whether less or
    more of it is better. `mean`: how several steps become one row, as a mean per step or, of a rate, all work over all
    time; "" where they are alike. Columns with a mean are empty where a plan does not fit into memory.
    """

    name: str
    title: str
    meaning: str
    of: Callable[[SimulatedCase], Cell] | None
    unit: Unit
    better: Better = ""
    mean: Mean = ""

    @property
    def is_number(self) -> bool:
        return self.unit not in ("text", "truth")

    @property
    def is_whole(self) -> bool:
        """True if the values of the column are whole numbers."""
        return self.unit == "count" or self.name == "peak_memory_bytes"


_seconds = partial(Column, unit="s", better="less", mean="per step")
_rate = partial(Column, unit="number", better="more", mean="per second")
_bytes = partial(Column, unit="bytes", better="less")
_count = partial(Column, unit="count")
_text = partial(Column, unit="text")


def _exposed(part: str, title: str) -> Column:
    meaning = f"exposed time of the nominal step: {title}"
    return _seconds(f"exposed_{part}_s", f"exposed, {title}", meaning, lambda case: getattr(case.exposure, part))


def _counted(part: str, title: str) -> Column:
    """Return the column of the bytes of a part of the traffic, which is counted separately."""

    def num_bytes(case: SimulatedCase) -> Cell:
        return sum(case.traffic.total(boundary, part) for boundary in BOUNDARIES)

    return _bytes(f"bytes_{part}", f"bytes of {title}", f"bytes of {title}, over all boundaries", num_bytes)


_PAYLOAD = "payload of a step over the whole machine, at the coarsest boundary that it crosses"
_INTERVAL = (
    "of the 90 % interval of tokens_per_s_per_device: as far as predictions of published runs are off that no fit has "
    "seen, and at least as far as the samples reach"
)
_NOMINAL = "of the nominal step: no variation between devices, no errors of models"

RESULTS: Final[tuple[Column, ...]] = (
    _text("scenario", "scenario", "name of the scenario", lambda case: case.scenario.name),
    _text("plan", "plan", "name of the plan in the scenario", lambda case: case.case.name),
    _count("devices", "devices", "devices of the job", lambda case: case.case.devices, better="less"),
    _count("nodes", "nodes", "nodes of the job", lambda case: case.step.pricing.fabric.num_nodes, better="less"),
    _count(
        "micro_batch",
        "micro-batch",
        "sequences of a data-parallel rank in a micro-batch",
        lambda case: case.case.micro_batch,
    ),
    _count("grad_accum", "micro-batches of a step", "micro-batches of a step", lambda case: case.case.grad_accum),
    _seconds("step_time_s", "time of a step", "median step of the samples", lambda case: case.step_s),
    _seconds(
        "compute_time_s",
        "compute in a step",
        "time in which the critical rank computes, slowed by communication beside it",
        lambda case: case.step.compute_s,
    ),
    _seconds(
        "exposed_comm_s",
        "exposed communication and waiting",
        "the median step minus compute_time_s: everything not overlapped by kernels, waiting and bubbles included",
        lambda case: case.step_s - case.step.compute_s,
    ),
    _rate(
        "tflops_per_device",
        "TFLOPS per device",
        "operations of the model's matrix products, each counted once, over the median step",
        lambda case: case.case.model_flops / case.step_s / case.case.devices / 1e12,
    ),
    _rate(
        "mfu",
        "useful share of the peak (MFU)",
        "tflops_per_device over the peak of the model's precision",
        lambda case: case.case.model_flops / case.step_s / case.peak_flops_per_s,
        unit="share",
    ),
    _rate(
        "tokens_per_s",
        "tokens per second",
        "tokens of a step over the median step; samples of a model without tokens",
        lambda case: case.tokens / case.step_s,
    ),
    _bytes("bytes_package", "bytes inside packages", _PAYLOAD, lambda case: case.traffic.total("package")),
    _bytes(
        "bytes_intra_node",
        "bytes inside nodes, between packages",
        _PAYLOAD,
        lambda case: case.traffic.total("intra_node"),
    ),
    _bytes("bytes_inter_node", "bytes between nodes", _PAYLOAD, lambda case: case.traffic.total("inter_node")),
    _bytes(
        "peak_memory_bytes",
        "memory on the fullest device",
        "largest sum of live buffers on a rank of the fullest stage",
        lambda case: case.memory.peak_bytes,
    ),
    _bytes(
        "host_memory_bytes",
        "memory on the host for a device",
        "largest sum of a device's activations that wait in the host's memory (offload_activations)",
        lambda case: case.host_bytes,
    ),
    Column(
        "fits",
        "fits in memory",
        "whether it fits into the memory of a device; if false, times are empty and note says why",
        lambda case: case.fits,
        "truth",
    ),
    Column(
        "scaling_efficiency",
        "efficiency relative to the plan's smallest size",
        "tflops_per_device over the plan's own at the smallest size at which it fits",
        None,
        "share",
        better="more",
    ),
    Column(
        "speedup",
        "speed against the first plan",
        "tokens_per_s over those of the scenario's first plan at the same size",
        None,
        "number",
        better="more",
    ),
    _exposed("inter_node", "between nodes"),
    _exposed("intra_node", "inside a node"),
    _exposed("package", "inside a package"),
    _exposed("codec", "codec and reordering"),
    _exposed("host", "the host's code"),
    _exposed("idle", "idle"),
    _counted("scales", "scales"),
    _counted("padding", "padding"),
    _counted("fallback", "fallbacks"),
    _counted("persisted", "persisted tensors"),
    _bytes(
        "need_inter_node",
        "bytes between nodes that any algorithm needs",
        "bytes that any algorithm would have to move between nodes; empty where a mesh's node is no node",
        lambda case: case.need_inter_node,
    ),
    _seconds(
        "bound_s",
        "lower bound of the step",
        "lower bound of the step at fidelity flow: its fullest lane or link; where calls differ, its lanes alone",
        lambda case: case.bound_s,
    ),
    _count(
        "rank_classes",
        "classes of ranks",
        "classes of equal ranks that are simulated",
        lambda case: case.step.pricing.folding.num_rank_classes,
    ),
    _text("fidelity", "fidelity", "fidelity of the simulation", lambda case: case.step.fidelity),
    _text("schedule_digest", "digest of the schedule", "digest of the schedule", lambda case: case.built.digest),
    _text("mesh", "mesh", "mesh of ranks, also where a search found it", lambda case: case.mesh_text),
    _text(
        "note",
        "note",
        "simplifications, what does not fit and what would, and the grid found by a search",
        lambda case: step_note(case.step),
    ),
    _seconds(
        "step_time_p05_s",
        "step, low end of 90 % of the samples",
        "below this are 5 % of the sampled steps; empty without samples",
        lambda case: case.of_samples(0),
    ),
    _seconds(
        "step_time_p50_s",
        "step, median of samples",
        "median of the sampled steps; empty without samples",
        lambda case: case.of_samples(1),
    ),
    _seconds(
        "step_time_p95_s",
        "step, high end of 90 % of the samples",
        "above this are 5 % of the sampled steps; empty without samples",
        lambda case: case.of_samples(2),
    ),
    _seconds("step_time_nominal_s", "time of a nominal step", f"time {_NOMINAL}", lambda case: case.step.step_s),
    _rate(
        "tflops_per_device_nominal",
        "TFLOPS per device, nominal",
        f"tflops_per_device {_NOMINAL}",
        lambda case: case.case.model_flops / case.step.step_s / case.case.devices / 1e12,
    ),
    _rate(
        "mfu_nominal",
        "MFU, nominal",
        f"mfu {_NOMINAL}",
        lambda case: case.case.model_flops / case.step.step_s / case.peak_flops_per_s,
        unit="share",
    ),
    _rate(
        "tokens_per_s_nominal",
        "tokens per second, nominal",
        f"tokens_per_s {_NOMINAL}",
        lambda case: case.tokens / case.step.step_s,
    ),
    _rate(
        "tokens_per_s_per_device",
        "tokens per second and device",
        "the rate by which plans are ranked",
        lambda case: case.tokens / case.step_s / case.case.devices,
    ),
    _rate(
        "hfu",
        "HFU (with recomputation)",
        "mfu with the operations that activation checkpointing repeats",
        lambda case: case.case.hardware_flops / case.step_s / case.peak_flops_per_s,
        unit="share",
    ),
    _rate(
        "neox_tflops_per_device",
        "TFLOPS per device as GPT-NeoX counts",
        "by GPT-NeoX's formula, by which many rates are published; empty for models that are no GPT",
        lambda case: (
            "" if case.case.neox_flops is None else case.case.neox_flops / case.step_s / case.case.devices / 1e12
        ),
    ),
    _seconds(
        "exposed_variation_s",
        "exposed, over the nominal step",
        "the median step minus the nominal one; the exposed parts sum to exposed_comm_s",
        lambda case: case.step_s - case.step.step_s,
    ),
    _text(
        "stack",
        "software stack",
        "software stack that the plan runs by; none: kernels as fused as the graph of the model",
        lambda case: NO_STACK if case.here.stack is None else case.here.stack.name,
    ),
    _text("grid", "grid", "ranks along each dimension of the plan's grid: tp 8 pp 2 dp 4", lambda case: case.grid_text),
    Column(
        "memory_capacity_bytes",
        "memory of a device for tensors",
        "memory of a device that the plan's software stack leaves to tensors",
        lambda case: case.capacity_bytes,
        "bytes",
        better="more",
    ),
    _rate(
        "tokens_per_s_per_device_low",
        "tokens per second and device, low end",
        f"low end {_INTERVAL}",
        None,
    ),
    _rate(
        "tokens_per_s_per_device_high",
        "tokens per second and device, high end",
        f"high end {_INTERVAL}",
        None,
    ),
)
COLUMNS: Final = tuple(column.name for column in RESULTS)
RATE: Final = "tokens_per_s_per_device"  # what plans are ranked and drawn by
BAND: Final = ("step_time_p05_s", "step_time_p50_s", "step_time_p95_s")
EMPTY_IF_TOO_BIG: Final = tuple(column.name for column in RESULTS if column.mean)


def row_of(case: SimulatedCase) -> Row:
    """Return the row of a case, without what compares it with others."""
    return {column.name: "" if column.of is None else column.of(case) for column in RESULTS}


MOST_LISTED = 6  # times of steps in a note


def different(perturbation: Perturbation, num_steps: int) -> tuple[tuple[int, int], ...]:
    """Return the distinct steps among the first `num_steps` under a perturbation, each with the number of steps equal
    to it.
    """
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
    """Return one row for several steps, given as (step, number of equal steps, row): the row of the step `shown`, with
    each column averaged over all steps as the column defines, and a note on the step times.
    """
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
    """Return the mean of a column over steps; for a rate, total work over total time."""
    if column.mean == "per step":
        return sum(count * float(row[column.name]) for count, row in rows) / num_steps
    step = "step_time_nominal_s" if column.name.endswith("_nominal") else "step_time_s"  # of which it is a rate
    work = sum(count * float(row[column.name]) * float(row[step]) for count, row in rows)
    return work / sum(count * float(row[step]) for count, row in rows)
