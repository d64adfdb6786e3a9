"""Tensor grids and pipelines in scenarios: what cannot be is refused in one line with the numbers that clash and the
nearest that work; batches, micro-batches and tables of single sizes mean what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simfrontier.errors import InputError
from simfrontier.scenario import Scenario, load_scenario
from simfrontier.scenario.case import Case
from tests.invoke import TOY, said_of

# The toy scenario's model: tiny, 2 layers, hidden 64, 4 heads, vocabulary 256, sequence 32; nodes of 4 devices.


def said(plan: str, settings: list[str], tmp_path: Path, devices: str = "8") -> str:
    """What `run` says about one plan with settings of its own (`x=3`) and of other tables (`model.hidden=66`)."""
    every = [text if "." in text.partition("=")[0] else f"plans.{plan}.{text}" for text in settings]
    return said_of(every, tmp_path, plan, devices)


def loaded(plan: str, settings: dict[str, Any], devices: tuple[int, ...] = (8,)) -> Scenario:
    every = {key if "." in key else f"plans.{plan}.{key}": value for key, value in settings.items()}
    return load_scenario(TOY, every, (plan,), devices)


def case(plan: str, settings: dict[str, Any], devices: int = 8) -> Case:
    return loaded(plan, settings, (devices,)).case(plan, devices)


# ── the grid and the devices ──


@pytest.mark.parametrize(
    ("plan", "settings", "devices", "grid", "nearest"),
    [
        ("axonn", ["x=4", "y=4"], "8", "y 4 × x 4 = 16 ranks does not divide 8 devices", "16"),
        (
            "axonn",
            ["x=2", "z=6", "model.hidden=48"],
            "16",
            "z 6 × x 2 = 12 ranks does not divide 16 devices",
            "12 and 24",
        ),
        (
            "axonn",
            ["z=5", "pipeline=2", "model.hidden=60"],
            "8",
            "stage 2 × z 5 = 10 ranks does not divide 8 devices",
            "10",
        ),
        ("megatron", ["tensor=4", "pipeline=2"], "4", "stage 2 × tensor 4 = 8 ranks does not divide 4 devices", "8"),
        (
            "megatron",
            ["tensor=4", "pipeline=2"],
            "12",
            "stage 2 × tensor 4 = 8 ranks does not divide 12 devices",
            "8 and 16",
        ),
    ],
)
def test_a_grid_that_does_not_divide_the_devices(
    tmp_path: Path, plan: str, settings: list[str], devices: str, grid: str, nearest: str
) -> None:
    got = said(plan, settings, tmp_path, devices)
    assert got == f"plans.{plan}: at {devices} devices: grid {grid}; nearest that it divides: {nearest} devices"


def test_the_first_size_that_does_not_fit_is_named(tmp_path: Path) -> None:
    got = said("axonn", ["x=4", "y=4"], tmp_path, "16,32,8")
    assert got.startswith("plans.axonn: at 8 devices: grid y 4 × x 4 = 16 ranks does not divide 8 devices; ")


# ── the grid and the model ──


@pytest.mark.parametrize(
    ("plan", "settings", "wrong"),
    [
        ("axonn", ["x=3"], "x = 3 does not divide hidden = 64; nearest that do: 2 and 4"),
        ("axonn", ["x=8", "model.hidden=36"], "x = 8 does not divide hidden = 36; nearest that do: 6 and 9"),
        ("axonn", ["y=3"], "y = 3 does not divide heads = 4; nearest that do: 2 and 4"),
        ("axonn", ["y=8"], "y = 8 does not divide heads = 4; nearest that do: 4"),
        ("axonn", ["y=4", "model.vocabulary=250"], "y = 4 does not divide vocabulary = 250; nearest that do: 2 and 5"),
        # 12 · 12 / (2 · 4) = 18 elements of dense on a rank of X and Y
        (
            "axonn",
            ["x=2", "y=4", "z=8", "model.hidden=12"],
            "z = 8 does not divide hidden² / (x y) = 18; nearest that do: 6 and 9",
        ),
        # a matrix of an MLP has 4 · 6 · 6 / (1 · 2) = 72 elements there
        (
            "axonn",
            ["model.name=tiny-mlp", "model.hidden=6", "y=2", "z=16"],
            "z = 16 does not divide 4 hidden² / (x y) = 72; nearest that do: 12 and 18",
        ),
        ("axonn", ["model.name=tiny-mlp", "y=3"], "y = 3 does not divide 4 hidden = 256; nearest that do: 2 and 4"),
        ("axonn", ["model.name=tiny-mlp", "y=32"], "y = 32 does not divide classes = 16; nearest that do: 16"),
        ("megatron", ["tensor=3"], "tensor = 3 does not divide heads = 4; nearest that do: 2 and 4"),
        (
            "megatron",
            ["tensor=4", "model.vocabulary=250"],
            "tensor = 4 does not divide vocabulary = 250; nearest that do: 2 and 5",
        ),
        (
            "megatron",
            ["tensor=4", "sequence_parallel=true", "model.sequence=30"],
            "tensor = 4 does not divide sequence = 30; nearest that do: 3 and 5",
        ),
        (
            "megatron",
            ["model.name=tiny-mlp", "tensor=2", "sequence_parallel=true"],
            "tensor = 2 does not divide sequence = 1; nearest that do: 1",
        ),
    ],
)
def test_a_grid_that_does_not_divide_the_model(tmp_path: Path, plan: str, settings: list[str], wrong: str) -> None:
    assert said(plan, settings, tmp_path) == f"plans.{plan}: at 8 devices: {wrong}"


# ── stages ──


@pytest.mark.parametrize("plan", ["axonn", "megatron"])
@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        (["pipeline=4"], "pipeline = 4 stages are more than the 2 layers of tiny; most stages that work: 2"),
        (["pipeline=2", "model.num_layers=3"], "pipeline = 2 does not divide layers = 3; nearest that do: 1 and 3"),
        (["pipeline=4", "model.num_layers=6"], "pipeline = 4 does not divide layers = 6; nearest that do: 3 and 6"),
        (
            ["pipeline=2", "order=interleaved"],
            'chunks = 1: order = "interleaved" needs chunks = 2 or more layer runs per stage',
        ),
        (["pipeline=2", "chunks=2"], 'chunks = 2: order = "1f1b" has one; allowed: 1, or "interleaved"'),
        (["chunks=2", "order=gpipe"], 'chunks = 2: order = "gpipe" has one; allowed: 1, or "interleaved"'),
        (
            ["pipeline=2", "order=interleaved", "chunks=2"],
            "pipeline = 2 stages of 2 chunks are more than the 2 layers of tiny; most stages that work: 1",
        ),
        (
            ["pipeline=2", "order=interleaved", "chunks=3", "model.num_layers=8"],
            "chunks = 3 does not divide layers = 8; nearest that do: 2 and 4",
        ),
        (
            ["pipeline=4", "order=interleaved", "chunks=2", "model.num_layers=12"],
            "pipeline = 4 does not divide layers / chunks 2 = 6; nearest that do: 3 and 6",
        ),
        (
            ["pipeline=2", "order=interleaved", "chunks=2", "model.num_layers=4", "grad_accum=3"],
            'order = "interleaved" needs micro-batches that divide by pipeline = 2, got 3; nearest: 2 and 4',
        ),
        (
            ["pipeline=2", "order=interleaved", "chunks=2", "model.num_layers=4"],
            'order = "interleaved" needs micro-batches that divide by pipeline = 2, got 1; nearest: 2',
        ),
    ],
)
def test_stages_that_cannot_be(tmp_path: Path, plan: str, settings: list[str], wrong: str) -> None:
    assert said(plan, settings, tmp_path) == f"plans.{plan}: at 8 devices: {wrong}"


# ── the batch ──


@pytest.mark.parametrize(
    ("plan", "settings", "wrong"),
    [
        # z divides the batch too: 2 · 2 of 8 ranks, x the other 2
        (
            "axonn",
            ["x=2", "z=2", "training.batch=10"],
            "training.batch = 10 does not divide over 4 data-parallel ranks × micro-batch 1 = 4; "
            "nearest batches that do: 8 and 12",
        ),
        (
            "megatron",
            ["tensor=2", "pipeline=2", "training.batch=9", "grad_accum=2"],
            "training.batch = 9 does not divide over 2 data-parallel ranks × micro-batches 2 = 4; "
            "nearest batches that do: 8 and 12",
        ),
        (
            "megatron",
            ["micro_batch=4", "training.batch=20"],
            "training.batch = 20 does not divide over 8 data-parallel ranks × micro-batch 4 = 32; "
            "nearest batches that do: 32",
        ),
        (
            "zero3",
            ["training.batch=12"],
            "training.batch = 12 does not divide over 8 data-parallel ranks × micro-batch 1 = 8; "
            "nearest batches that do: 8 and 16",
        ),
        (
            "megatron",
            ["tensor=2", "training.batch=16", "grad_accum=2", "micro_batch=3"],
            "training.batch = 16 over 4 data-parallel ranks in 2 micro-batches makes micro_batch = 2, got 3; "
            "leave one of the two out",
        ),
        # 8192 sequences of one rank: 8192 / 16 = 512 is the first below 1000
        (
            "axonn",
            ["x=8", "training.batch=8192"],
            "training.batch = 8192 over 1 data-parallel ranks × micro-batch 1 makes 8192 micro-batches, allowed: up to "
            "1000; nearest that works: micro_batch = 16",
        ),
    ],
)
def test_a_batch_that_does_not_divide(tmp_path: Path, plan: str, settings: list[str], wrong: str) -> None:
    assert said(plan, settings, tmp_path) == f"plans.{plan}: at 8 devices: {wrong}"


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [
        ("micro_batch=0", "micro_batch: got 0, allowed: at least 1"),
        ("grad_accum=0", "grad_accum: got 0, allowed: at least 1"),
        ("grad_accum=1001", "grad_accum: got 1001, allowed: at most 1000"),
        ("micro_batch=1.5", "micro_batch: got 1.5, allowed: a whole number"),
    ],
)
def test_micro_batches_of_a_plan_are_numbers_within_bounds(tmp_path: Path, setting: str, wrong: str) -> None:
    assert said("megatron", [setting], tmp_path) == f"plans.megatron.{wrong}"


# ── keys ──

GATHER_KEYS = "attention, checkpointing, family, gather_codec, grad_accum, gradient_codec, micro_batch, softmax"
FAMILIES = "ddp, hsdp, lattice, zero-topo, zero1, zero2, zero3, zeropp"


@pytest.mark.parametrize(
    ("plan", "setting", "wrong"),
    [
        ("megatron", "data=zero9", '.data: got "zero9", which is no family of the data axes; did you mean "zero3"?'),
        ("axonn", "data=megatron", f'.data: got "megatron", which is no family of the data axes; allowed: {FAMILIES}'),
        ("axonn", "data=3", f".data: got 3, which is no family of the data axes; allowed: {FAMILIES}"),
        (
            "megatron",
            'data={family="zero4"}',
            '.data: got "zero4", which is no family of the data axes; did you mean "zero3"?',
        ),
        ("megatron", 'data={famil="zero1"}', f".data.family: missing; allowed: {FAMILIES}"),
        (
            "megatron",
            'data={family="zero3", x=2}',
            f".data.x: unknown key; allowed: {GATHER_KEYS}",
        ),
        (
            "megatron",
            'data={family="zero1", reduction="all_reduce", gradient_codec="int8:64"}',
            '.data.reduction: got "all_reduce", which cannot carry gradient_codec = "int8:64" (codes cannot be added '
            'up on their way); allowed: "reduce_scatter"',
        ),
        ("megatron", 'data={family="hsdp", shard=["node"]}', '.data.shard: got "node"; allowed: data, gcd, package'),
        (
            "megatron",
            'data={family="hsdp", shard=["gcd", "gcd"]}',
            '.data.shard: got "gcd" twice, allowed: every axis once',
        ),
        ("megatron", "data=lattice", ".data.weight: missing (and 2 more faults)"),
        (
            "axonn",
            'data={family="zeropp", weight_codec="int8:0"}',
            ".data.weight_codec: codec 'int8:0': write int8:BLOCK with BLOCK elements per scale, e.g. int8:6144",
        ),
        (
            "axonn",
            "gradient_codec=fp32",
            ".gradient_codec: is of the plan on the data axes: plans.axonn.data.gradient_codec",
        ),
        ("megatron", "tensr=2", '.tensr: unknown key; did you mean "tensor"?'),
        ("axonn", "pipelin=2", '.pipelin: unknown key; did you mean "pipeline"?'),
        ("axonn", "x=0", ".x: got 0, allowed: at least 1"),
        ("axonn", "z=2.0", ".z: got 2.0, allowed: a whole number"),
        ("axonn", "y=2097152", ".y: got 2097152, allowed: at most 1048576"),
        ("axonn", "oar=1", ".oar: got 1, allowed: true or false"),
        ("megatron", "order=2f2b", '.order: got "2f2b", allowed: "gpipe", "1f1b" or "interleaved"'),
        ("zero3", "x=2", f".x: unknown key; allowed: {GATHER_KEYS}"),
        (
            "megatron",
            'data={family="zero1", micro_batch=2}',
            ".data.micro_batch: is of the plan as a whole: plans.megatron.micro_batch",
        ),
    ],
)
def test_a_key_that_is_wrong_is_named_with_its_plan(tmp_path: Path, plan: str, setting: str, wrong: str) -> None:
    assert said(plan, [setting], tmp_path) == f"plans.{plan}{wrong}"


def test_compressed_gradients_are_all_reduced_only_message_by_message(tmp_path: Path) -> None:
    settings = ['data={family="zero1", reduction="all_reduce"}', 'compression="naive-zfp:8"']
    assert said("megatron", settings, tmp_path) == (
        'plans.megatron.data.reduction: got "all_reduce", which cannot carry compression of dp = "zfp:8" (codes cannot '
        'be added up on their way); allowed: "reduce_scatter", or compress_per_hop = true'
    )


@pytest.mark.parametrize(("plan", "key"), [("axonn", "tensor"), ("megatron", "z"), ("axonn", "sequence_parallel")])
def test_a_key_of_the_other_family_is_unknown(tmp_path: Path, plan: str, key: str) -> None:
    got = said(plan, [f"{key}=2"], tmp_path)
    keys = "compress_from, compress_per_hop, compression, " if plan == "megatron" else ""
    first = "batch_first, " if plan == "megatron" else ""
    known = f"attention, {first}checkpointing, chunks, {keys}cross_entropy, data, family, "
    assert got.startswith(f"plans.{plan}.{key}: unknown key; allowed: {known}")


@pytest.mark.parametrize(
    ("settings", "plan", "wrong"),
    [
        (["search.values.family=[1]"], "megatron", ".values.family: cannot be searched for here; leave it out"),
        (["search=5"], "axonn", ": got 5, allowed: a table { by, top, values }"),
        (["search.top=3"], "axonn", ": got nothing to search; allowed: "),
    ],
)
def test_a_search_that_cannot_be(tmp_path: Path, settings: list[str], plan: str, wrong: str) -> None:
    got = said_of([f"plans.{plan}.{text}" for text in settings], tmp_path, plan)
    assert got.startswith(f"plans.{plan}.search{wrong}")


@pytest.mark.parametrize(
    ("plan", "settings", "key"),
    [
        ("megatron", ["search={values={tensor=[2, 4]}}", "tensor=2"], "tensor"),
    ],
)
def test_what_is_searched_for_is_not_given(tmp_path: Path, plan: str, settings: list[str], key: str) -> None:
    got = said(plan, settings, tmp_path)
    assert got == f"plans.{plan}.{key}: got 2, but it is searched for; leave one of the two out"


# ── batches and micro-batches ──


@pytest.mark.parametrize(
    ("plan", "settings", "ranks", "micro_batch", "grad_accum"),
    [
        ("axonn", {"x": 2, "z": 2}, 4, 1, 1),  # data 2 × z 2
        ("axonn", {"x": 2, "training.micro_batch": 3, "training.grad_accum": 2}, 4, 3, 2),
        ("axonn", {"x": 2, "training.micro_batch": 3, "micro_batch": 2, "grad_accum": 5}, 4, 2, 5),  # the plan's own
        ("axonn", {"x": 2, "z": 2, "training.batch": 48}, 4, 1, 12),  # 48 / 4 sequences of a rank, one at a time
        ("axonn", {"x": 2, "training.batch": 48, "micro_batch": 3}, 4, 3, 4),
        ("axonn", {"x": 2, "training.batch": 48, "grad_accum": 3}, 4, 4, 3),
        ("axonn", {"x": 2, "training.batch": 48, "grad_accum": 3, "micro_batch": 4}, 4, 4, 3),
        ("megatron", {"tensor": 2, "pipeline": 2, "training.batch": 16}, 2, 1, 8),
        ("megatron", {"tensor": 4, "training.batch": 16, "training.micro_batch": 2}, 2, 2, 4),
        ("zero3", {"training.batch": 16}, 8, 1, 2),
        ("zero3", {"training.batch": 16, "training.micro_batch": 2}, 8, 2, 1),
    ],
)
def test_batch_and_micro_batches(
    plan: str, settings: dict[str, Any], ranks: int, micro_batch: int, grad_accum: int
) -> None:
    got = case(plan, settings)
    assert (got.batch_ranks, got.micro_batch, got.grad_accum) == (ranks, micro_batch, grad_accum)
    assert got.samples == ranks * micro_batch * grad_accum
    assert got.workload.batch == ranks * micro_batch
    if "training.batch" in settings:
        assert got.samples == settings["training.batch"]


def test_micro_batches_beside_a_batch_of_the_step_are_refused(tmp_path: Path) -> None:
    got = said("megatron", ["training.batch=16", "training.grad_accum=4"], tmp_path)
    assert got == (
        "training.grad_accum: got 4 beside training.batch = 16, of which it follows; leave one of the two out"
    )


def test_axonn_s_mesh_is_x_y_z_stages_data_and_megatron_s_tensor_data_stages() -> None:
    """Fastest last; nodes of 4 devices in packages of 2. What a grid leaves of a package or a node is an axis."""
    assert case("axonn", {"x": 2, "z": 2, "pipeline": 2}, 16).mesh.axes == (
        ("data", 2),
        ("package", 1),
        ("gcd", 1),
        ("stage", 2),
        ("z", 2),
        ("y", 1),
        ("x", 2),
    )
    assert case("megatron", {"tensor": 2, "pipeline": 2}, 16).mesh.axes == (
        ("stage", 2),
        ("data", 2),
        ("package", 2),
        ("gcd", 1),
        ("tensor", 2),
    )


def test_a_family_s_own_name_is_a_plan_without_a_table() -> None:
    assert case("axonn", {}).batch_ranks == case("megatron", {}).batch_ranks == 8


def test_options_are_refused_before_any_size_is_looked_at() -> None:
    with pytest.raises(InputError, match=r"plans\.axonn\.x: got 0, allowed"):
        loaded("axonn", {"x": 0}, (6,))
