"""Tensor grids and pipelines: sound with every plan on their data axes, small when stored, and every option counts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, get_args

import pytest

from simfrontier.core.plan.options import Options
from simfrontier.core.plan.plan import CHUNKED_ORDERS, Pipeline, PipelineOrder
from simfrontier.core.plan.tensor import TensorOptions
from simfrontier.core.plan.zero import BucketOptions
from simfrontier.core.program import Collective, Compute, Op, Schedule, check, is_product
from simfrontier.core.program.expansion import expand
from simfrontier.core.program.store import digest, from_json, to_json
from tests.conftest import Golden
from tests.core.plan.grids import axonn, megatron, moved, other, schedule_of

DATA = ("ddp", "zero1", "zero2", "zero3", "hsdp", "zeropp", "zero-topo")
NODE = (8, 2)  # devices of a node and of a package
FOUR = other(num_layers=4)


def is_sound(schedule: Schedule) -> None:
    """The checker finds nothing, and the schedule is the same after it was stored."""
    report = check(schedule)
    assert report.is_clean, str(report)
    text = to_json(schedule)
    again = from_json(text, "stored")
    assert digest(again) == digest(schedule) and to_json(again) == text


# ── every combination is a schedule ──


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("grid", [(1, 1, 2), (2, 2, 2)], ids=str)
def test_axonn_grids_with_every_plan_on_the_data_axes(data: str, grid: tuple[int, int, int]) -> None:
    is_sound(schedule_of(axonn(*grid, data=data), math.prod(grid) * 16, micros=2, node=NODE))


@pytest.mark.parametrize("data", ["zero1", "zero3", "zeropp"])
@pytest.mark.parametrize("order", get_args(PipelineOrder))
def test_megatron_pipelines_with_plans_on_the_data_axes(data: str, order: PipelineOrder) -> None:
    chunks = 2 if order in CHUNKED_ORDERS else 1
    options = megatron(2, 2, data=data, sequence_parallel=order == "1f1b", order=order, chunks=chunks)
    is_sound(schedule_of(options, 16, shape=FOUR, micros=4, node=NODE))


@pytest.mark.parametrize(("residual", "tied"), [("sequential", True), ("parallel", False)])
@pytest.mark.parametrize(
    "options",
    [
        axonn(2, 2, 2),
        axonn(2, 2, 2, gather_again=True, oar=False, ors=False, oag=False),
        axonn(1, 2, 2, data="zero3", pipeline=2),
        megatron(4),
        megatron(2, sequence_parallel=True, data="zero1"),
        megatron(1, 4, data="zero1"),
        megatron(2, 2, overlap_exchange=True, overlap_gradients=True),
        megatron(2, 2, order="interleaved", chunks=2, sequence_parallel=True, data="zero2"),
        megatron(1, 4, order="gpipe", overlap_exchange=True),
        megatron(1, 4, order="zb-h1", overlap_gradients=True, data="zero1"),
        megatron(2, 2, order="zb-v", chunks=2, sequence_parallel=True, overlap_gradients=True, data="zero2"),
        megatron(2, 2, order="dualpipev", chunks=2, overlap_gradients=True),
    ],
    ids=lambda each: f"{each.family} {','.join(sorted(each.model_fields_set - {'family'}))}",
)
def test_every_block_of_the_model_in_every_kind_of_grid(options: TensorOptions, residual: str, tied: bool) -> None:
    is_sound(schedule_of(options, 32, shape=other(FOUR, tied=tied, residual=residual), micros=4, node=NODE))


@pytest.mark.parametrize(
    ("layers", "chunks", "stages", "expected"),
    [
        (126, 4, 8, [3, *[4] * 30, 3]),  # Llama 3.1 (arXiv 2407.21783, section 3.3.2)
        (61, 1, 16, [3, *[4] * 13, 3, 3]),
        (6, 2, 2, [1, 2, 2, 1]),
        (7, 1, 2, [4, 3]),
        (8, 1, 4, [2, 2, 2, 2]),
    ],
)
def test_even_stages_have_a_layer_less_at_the_ends(layers: int, chunks: int, stages: int, expected: list[int]) -> None:
    runs = Pipeline(axis="stage", chunks=chunks).groups(layers, stages)
    assert [len(run) for run in runs] == expected
    assert [layer for run in runs for layer in run] == list(range(layers))


@pytest.mark.parametrize(
    ("keys", "layers", "stages"),
    [
        ({"pipeline": 3}, (3, 2, 1), [range(3), range(3, 5), range(5, 6)]),
        ({"pipeline": 3, "order": "gpipe"}, (0, 6, 0), [range(0), range(6), range(0)]),  # ends on stages of their own
        ({"pipeline": 3, "order": "interleaved", "chunks": 2}, (2, 0, 1, 0, 2, 1), [(0, 1), (3, 4), (2, 5)]),
        ({"pipeline": 2, "order": "interleaved", "chunks": 2}, (1, 3, 1, 1), [(0, 4), (1, 2, 3, 5)]),
    ],
    ids=str,
)
def test_stages_have_the_layers_that_the_plan_lists(keys: dict[str, Any], layers: tuple[int, ...], stages: Any) -> None:
    options = megatron(1, layers=layers, data="zero1", **keys)
    schedule = schedule_of(options, 4 * options.pipeline, shape=other(num_layers=6, tied=True), micros=6, node=NODE)
    is_sound(schedule)
    for role, expected in zip(schedule.roles, stages, strict=True):
        for label in ("forward", "backward", "step.layer"):
            assert sorted({call.layer for call in role.calls if call.label == label}) == list(expected)


def test_the_layers_of_equal_stages_may_be_listed() -> None:
    """Nothing but the key differs."""
    for keys, layers in (({}, (3, 3)), ({"layers": "even", "order": "interleaved", "chunks": 2}, (1, 2, 2, 1))):
        made, same = (
            schedule_of(megatron(1, 2, **how), 4, shape=other(num_layers=6), micros=4)
            for how in (keys, keys | {"layers": layers})
        )
        assert digest(made) == digest(same)


# ── what a plan on the data axes adds ──


def all_reduced(family: str) -> Options:
    return BucketOptions(family=family, reduction="all_reduce")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # qkv: 144 · 48 / (2 · 2) = 1728 elements on (x, y); / 2 = 864 on z; the rest over 8 data ranks (4 nodes · 2)
        ("ddp", {"step all_reduce": 864}),
        ("zero1", {"step reduce_scatter": 864, "publish all_gather": 864}),
        ("zero2", {"backward reduce_scatter": 864, "publish all_gather": 864}),
        (all_reduced("zero1"), {"step all_reduce": 864, "publish all_gather": 864}),
        (all_reduced("zero2"), {"backward all_reduce": 864, "publish all_gather": 864}),
        (
            "zero3",
            {"forward all_gather": 864, "recompute all_gather": 864, "backward reduce_scatter": 864},
        ),
    ],
)
def test_a_weight_crosses_the_data_axes_inside_its_block_of_x_y_and_z(
    data: str | Options, expected: dict[str, int]
) -> None:
    """ZeRO-1 and -2 reduce-scatter there unless they say otherwise, as Megatron-LM's distributed optimizer does."""
    schedule = schedule_of(axonn(2, 2, 2, data=data), 64, node=(16, 4))
    got = moved(schedule, 0)
    over_data = {f"{row.when} {row.kind}": row.elements for row in got if _is(row, "qkv.weight", "data+package")}
    assert over_data == expected
    over_z = {f"{row.when} {row.kind}": row.elements for row in got if _is(row, "qkv.weight", "z")}
    assert over_z == {"forward all_gather": 1728, "recompute all_gather": 1728, "backward reduce_scatter": 1728}


def _is(row: Any, tensor: str, axes: str) -> bool:
    return bool((row.tensor, row.axes) == (tensor, axes))


# ── stages ──


@pytest.mark.parametrize("data", ["ddp", "zero1", "zero3"])
def test_every_weight_is_stepped_once_over_all_stages(data: str) -> None:
    """Elements that Adam runs over: the model's parameters, ψ = L (12 h² + 13 h) + 2 h + 2 V h."""
    schedule = schedule_of(megatron(2, 2, data=data), 8, shape=FOUR, micros=2)
    ops = [op for role in schedule.roles for _, op in role.instances() if op.kind == "adam"]
    assert sum(dict(op.iteration)["w"] for op in ops if isinstance(op, Compute)) == FOUR.num_parameters


# ── size ──


def stored_size(options: TensorOptions, num_ranks: int, num_layers: int, micros: int) -> int:
    """Characters of the stored schedule, every number as one."""
    schedule = schedule_of(options, num_ranks, shape=other(num_layers=num_layers), micros=micros)
    return len(re.sub(r"\d+", "0", to_json(schedule)))


@pytest.mark.parametrize(
    "options",
    [
        megatron(2, 4, data="zero1"),
        megatron(2, 4, order="interleaved", chunks=2),
        megatron(2, 4, order="zb-v", chunks=2),
    ],
    ids=["1f1b", "interleaved", "zb-v"],
)
def test_a_stored_pipeline_grows_with_neither_micro_batches_nor_layers(options: TensorOptions) -> None:
    """Four times as many micro-batches, twice as many layers."""
    base = stored_size(options, 16, 32, 16)
    assert stored_size(options, 16, 32, 64) == base
    assert stored_size(options, 16, 64, 16) == base


# ── overlaps ──

ALL_OFF = {"oar": False, "ors": False, "oag": False}
Keys = dict[str, bool]
OVERLAPS: dict[str, Keys] = {
    "none": ALL_OFF,
    "oar": ALL_OFF | {"oar": True},
    "ors": ALL_OFF | {"ors": True},
    "oag": ALL_OFF | {"oag": True},
    "all": {},
    "oag_again": ALL_OFF | {"oag": True, "gather_again": True},
}


def overlapped(keys: Keys) -> Schedule:
    return schedule_of(axonn(2, 2, 2, **keys), 8, shape=other(num_layers=3))


def text_of(schedule: Schedule) -> str:
    """A layer that is neither the first nor the last, forward and backward: matrix products and communication, each on
    its lane."""
    lines = []
    for call in schedule.roles[0].calls:
        if call.label in ("forward", "backward") and call.layer == 1:
            lines.append(f"{call.label} of layer 1")
            lines += [f"  {op.lane:8}{_line(op)}" for op in call.ops if is_product(op.kind) or op.name in PURPOSES]
    return "\n".join(lines) + "\n"


PURPOSES = ("weight_gather", "activation", "input_gradient", "gradient")


def _line(op: Op) -> str:
    if isinstance(op, Collective):
        names = ", ".join(ref.name + (f" of layer {1 + ref.layer}" if ref.layer else "") for ref in op.dst)
        return f"{op.kind} over {'+'.join(op.axes)}: {names}"
    return f"{op.kind} {op.name}"


@pytest.mark.parametrize("name", OVERLAPS)
def test_a_layer_with_each_overlap_as_text(name: str, golden: Golden) -> None:
    golden(f"axonn/{name}.txt", text_of(overlapped(OVERLAPS[name])))


ZERO1 = BucketOptions(family="zero1")

# option: (a value that is not its default, what else has to be set so that it matters)
BOTH: dict[str, tuple[Any, dict[str, Any]]] = {
    "pipeline": (2, {}),
    "order": ("gpipe", {"pipeline": 2}),
    "chunks": (4, {"order": "interleaved", "pipeline": 2, "chunks": 2}),
    "overlap_exchange": (True, {"pipeline": 2}),
    "data": (ZERO1, {}),
}
AXONN = BOTH | {
    "x": (2, {}),
    "y": (2, {}),
    "z": (2, {}),
    "cross_entropy": ("mn-merge", {"y": 2}),
    "oar": (False, {"y": 2}),
    "ors": (False, {"z": 2}),
    "oag": (False, {"z": 2}),
    "gather_again": (True, {"z": 2}),
}
MEGATRON = BOTH | {
    "tensor": (2, {}),
    "cross_entropy": ("mn-merge", {"tensor": 2}),
    "sequence_parallel": (True, {"tensor": 2}),
    "overlap_input_gradients": (False, {"tensor": 2}),
    "overlap_gradients": (True, {}),
    "product_pieces": (2, {"tensor": 2, "sequence_parallel": True}),
    "context": (2, {"context_by": "heads"}),
    "batch_first": (True, {"tensor": 2, "sequence_parallel": True}),
    "gather_inputs_again": (False, {"tensor": 2, "sequence_parallel": True}),
    "compression": ("naive-zfp:8", {"tensor": 2, "compress_from": 0}),
    "compress_from": (0, {"tensor": 2, "compression": "naive-zfp:8"}),
    "compress_per_hop": (True, {"tensor": 2, "compression": "naive-zfp:8", "compress_from": 0}),
    "message_dtype": ("fp32", {"tensor": 2, "compress_from": 0}),
}
Make = Callable[..., TensorOptions]


@pytest.mark.parametrize(
    ("make", "option", "value", "base"),
    [(make, key, *case) for make, cases in ((axonn, AXONN), (megatron, MEGATRON)) for key, case in cases.items()],
)
def test_every_option_changes_the_schedule(make: Make, option: str, value: Any, base: dict[str, Any]) -> None:
    shape = other(num_layers=8)
    before, after = (schedule_of(make(**keys), 16, shape=shape, micros=2) for keys in (base, base | {option: value}))
    assert to_json(before) != to_json(after)


@pytest.mark.parametrize("again", [False, True], ids=["kept", "gathered again"])
@pytest.mark.parametrize("residual", ["sequential", "parallel"])
def test_a_fetch_begins_when_the_work_has_come_to_the_module_before(again: bool, residual: str) -> None:
    """The lane of gathers waits at each module that fetches: for the op that wrote an activation last before it, so
    that it never is further ahead than one module."""
    schedule = schedule_of(axonn(2, 2, 2, gather_again=again), 8, shape=other(residual=residual, num_layers=3))
    program = expand(schedule, schedule.roles[0])
    compute, gather = program.lanes.index("compute"), program.lanes.index("gather")
    last, waited, fetches = 0, 0, 0
    for index, op in enumerate(program.ops):
        activations = any(schedule.tensors[ref.name].role == "activation" for ref in program.writes[index])
        if program.lane[index] == compute and isinstance(op, Compute) and activations:
            last = program.position[index] + 1
        if op.kind == "hook":
            waited = max(waited, dict(program.waits[index]).get(compute, 0))
        if op.name == "weight_gather":
            assert program.lane[index] == gather
            assert waited >= last
            fetches += 1
    assert fetches > 12
