"""Experts: the bytes of dispatch and combination by hand, which axes divide the experts, and the grids that are
refused."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.collectives import message_bytes
from simfrontier.core.cost.compute import Kernel
from simfrontier.core.engine import passed
from simfrontier.core.machine import load_machine
from simfrontier.core.plan import build, make_plan
from simfrontier.core.plan.families import FAMILIES
from simfrontier.core.program import Collective, Compute, Schedule, check, expand, is_product, is_wait, matmul_shape
from simfrontier.core.workload import Checkpointing, GptShape, gpt
from tests.real.grids import EXPERTS
from tests.real.schedules import PLAIN

BATCH, S, H, K, E, F = 8, 8, 16, 2, 4, 8  # samples, positions, features, choices, experts, features of an expert
BALANCED = replace(EXPERTS, capacity=None)


def options(**keys: Any) -> Any:
    return FAMILIES["megatron"][0](family="megatron", **keys)


def schedule(ranks: int, shape: GptShape = BALANCED, **keys: Any) -> Schedule:
    """The schedule of a micro-batch of BATCH samples without checkpointing."""
    plan = options(**keys)
    mesh = plan.mesh(ranks, per_node=1, per_package=1)
    plan.refuse_shape(shape)
    return build(gpt(shape, BATCH, "none", precision="bf16"), make_plan("megatron", plan, mesh), mesh, PLAIN, 1)


def sent(held: Schedule) -> dict[tuple[str, str], list[int]]:
    """The bytes that each call over the experts' axes moves per rank in a layer's forward, by kind and value."""
    (role,) = held.roles
    block = next(call for call in role.calls if call.label == "forward").ops
    out: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for op in block:
        if isinstance(op, Collective) and "expert" in op.axes:
            value = held.tensors[op.src[0].name].value
            out[op.kind, value].append(message_bytes(op, held.tensors, held.mesh))
    return dict(out)


@pytest.mark.parametrize("ranks", [2, 4])
def test_every_row_goes_to_its_expert_and_back_once(ranks: int) -> None:
    """b s k rows of h bf16 features and one fp32 weight, of which (n - 1) / n leave the rank."""
    rows = BATCH // ranks * S * K
    held = schedule(ranks, expert=ranks)
    there, back = rows * H * 2, rows * H * 2
    assert sent(held) == {
        ("all_to_all", "dispatched"): [there],
        ("all_to_all", "dispatched.weights"): [rows * 4],
        ("all_to_all", "experts.out"): [back],
    }


def test_the_all_gather_brings_all_positions_to_all_ranks_and_sums_are_scattered() -> None:
    """The message of an all-gather is what every rank has in the end, that of a reduce-scatter what it has before."""
    calls = sent(schedule(4, expert=4, dispatch="all_gather"))
    assert calls["all_gather", "ln2.out"] == [BATCH * S * H * 2]
    assert calls["reduce_scatter", "routed.out"] == [BATCH * S * H * 2]
    assert not any(kind == "all_to_all" for kind, _ in calls)


@pytest.mark.parametrize(("dispatch", "via", "copies"), [("all_to_all", "library", 3), ("deepep", "deepep", 1)])
def test_rows_of_several_experts_are_put_in_order_after_an_all_to_all_of_the_library(
    dispatch: str, via: str, copies: int
) -> None:
    """The forward's rows and outputs, and the weights of rows, which always go by the library."""
    calls = schedule(2, expert=2, dispatch=dispatch).roles[0].calls
    forward = next(call for call in calls if call.label == "forward").ops
    moves = [op for op in forward if isinstance(op, Collective) and op.kind == "all_to_all"]
    assert [op.via for op in moves] == [via, "library", via]
    assert sum(op.kind == "permute" for op in forward) == copies


def test_products_of_experts_have_the_rows_of_each() -> None:
    """6 experts in 2 blocks, since 32 rows of a sample divide by no more: 3 experts share the 16 rows of a block."""
    held = schedule(2, replace(BALANCED, experts=6, experts_per_token=4), expert=2)
    shapes = {op.name: matmul_shape(op, held.tensors, held.mesh) for op in held.ops if is_product(op.kind)}
    rows = -(-BATCH * 16 // 3)
    assert shapes["experts.down"] == (3, rows, H, F)
    assert shapes["experts.down.wgrad"] == (3, H, F, rows)
    assert shapes["router"] == (1, BATCH // 2 * S, 6, H)


def kernel(held: Schedule, name: str, **kernels: Any) -> Kernel:
    """The kernel of an op on a B200 with these properties of a stack's kernels."""
    (op,) = (op for op in held.ops if op.name == name)
    assert isinstance(op, Compute)
    machine = load_machine("b200-node")
    return Kernel.of(op, held, replace(machine, kernels=replace(machine.kernels, **kernels)))


@pytest.mark.parametrize(("form", "waves", "gaps"), [("streams", 1, 4), ("loop", 4, 4), ("torch", 1 / 0.72, 1)])
def test_forms_of_products_of_experts(form: str, waves: float, gaps: int) -> None:
    """4 experts with 32 rows of 16 features to 8: one tile each of 64 x 64, in one wave of 148 units or in four, by one
    launch or four; PyTorch's kernel reaches 0.72 of the rate."""
    held = schedule(1)
    one, other = (kernel(held, "experts.down", experts=each) for each in ("one", form))
    assert other.arithmetic_s == pytest.approx(waves * one.arithmetic_s)
    assert other.fixed_s == pytest.approx(gaps * one.fixed_s)


@pytest.mark.parametrize(("dispatch", "copies"), [("all_to_all", 1), ("deepep", 1), ("hybridep", 0)])
def test_rows_in_a_narrow_type_are_copied_into_padded_blocks(dispatch: str, copies: int) -> None:
    """As many bytes read and written as the rows have in bf16, where the dispatcher does not pad them."""
    held = schedule(2, expert=2, dispatch=dispatch)
    for name in ("dispatch", "combine", "dispatch.backward", "combine.backward"):
        plain, wide, padded = (
            kernel(held, name, linear=linear, pads_rows=pads).num_bytes
            for linear, pads in (("fp8", False), (None, True), ("fp8", True))
        )
        assert wide == plain
        assert padded - plain == copies * 2 * BATCH // 2 * S * K * H * 2


@pytest.mark.parametrize(("narrow", "op", "is_narrow"), [
    ("all", "experts.up", True),
    ("experts", "experts.up", True),
    ("modules", "experts.up", False),
    ("all", "qkv", True),
    ("experts", "qkv", False),
    ("modules", "qkv", True),
    ("all", "router", False),
])  # fmt: skip
def test_narrow_products_are_of_experts_or_of_the_other_modules(narrow: str, op: str, is_narrow: bool) -> None:
    held = schedule(1)
    wide, all_narrow = (kernel(held, op, linear=linear) for linear in (None, "fp8"))
    assert kernel(held, op, linear="fp8", narrow=narrow) == (all_narrow if is_narrow else wide)
    assert (all_narrow == wide) == (op == "router")


@pytest.mark.parametrize(
    ("name", "products"), [("dispatch", 1), ("combine", 1), ("dispatch.backward", 1), ("combine.backward", 2)]
)
def test_masks_multiply_all_rows_of_a_sample_by_all_its_positions(name: str, products: int) -> None:
    """2 b (k s) s h FLOPs at the rate of products of such a size; the combination's mask has a gradient."""
    rate = load_machine("b200-node").matmul("bf16").rate(K * S, H, S, BATCH)
    masked = kernel(schedule(1), name, masks=True)
    assert masked.arithmetic_s == pytest.approx(products * 2 * BATCH * K * S * S * H / rate)
    assert masked.num_bytes == kernel(schedule(1), name).num_bytes


def units(overlap: bool) -> float:
    """Time until the last backward of three micro-batches is done, if every op takes one unit and nothing else any."""
    plan = options(expert=2, overlap_experts=overlap)
    mesh = plan.mesh(2, per_node=1, per_package=1)
    made = build(gpt(BALANCED, BATCH, "none", precision="bf16"), make_plan("megatron", plan, mesh), mesh, PLAIN, 3)
    report = check(made)
    assert report.is_clean, str(report)
    program = expand(made, made.roles[0])
    _, end = passed(program.before, [float(op.kind != "hook") for op in program.ops])
    return max(end[at] for at, call in enumerate(program.calls) if call.label == "embedding.backward")


def test_dispatches_overlap_with_the_computation_of_another_micro_batch() -> None:
    """A pass of four layers has twelve all-to-alls, rows and their weights there and outputs back. The second forward
    runs beside the first backward, the third beside the second: all but those of the first forward and of the last
    backward are hidden."""
    assert units(overlap=False) - units(overlap=True) == 2 * (12 + 12)


@pytest.mark.parametrize("launch_s", [0.5, 40.0])
@pytest.mark.parametrize("checkpointing", ["none", "full"])
def test_a_host_that_waits_for_rows_is_a_layer_ahead_at_most(checkpointing: Checkpointing, launch_s: float) -> None:
    """If every op of the device takes a second, launches of half a second are hidden; if a launch takes longer than all
    ops of a layer, they follow one another without a pause."""
    plan = options()
    mesh = plan.mesh(1, per_node=1, per_package=1)
    made = make_plan("megatron", plan, mesh)
    work = gpt(BALANCED, BATCH, checkpointing, precision="bf16")
    free, held = (build(work, made, mesh, replace(PLAIN, synchronise=each), 3) for each in ("never", "experts"))
    assert check(held).is_clean
    program = expand(held, held.roles[0])
    launches = [at for at, op in enumerate(program.ops) if op.kind in ("launch", "launch_backward")]
    assert len(launches) == 3 * BALANCED.num_layers * (3 if checkpointing == "full" else 2)
    seconds = [launch_s if at in launches else float(not is_wait(op)) for at, op in enumerate(program.ops)]
    _, end = passed(program.before, seconds)
    if launch_s < 1.0:
        assert max(end) == len(expand(free, free.roles[0]).ops)
    else:
        assert end[launches[-1]] == len(launches) * launch_s


def test_experts_are_reduced_over_the_data_ranks_that_are_left() -> None:
    held = schedule(8, expert=4, data=FAMILIES["zero1"][0](family="zero1"))
    up, gradient = held.tensors["experts.up.weight"], held.tensors["experts.up.weight.grad"]
    assert up.shape == (E, 2 * F, H)
    assert str(up.placement) == "expert:shard(0)"
    assert str(gradient.placement) == "expert:shard(0) data:partial(sum)"
    assert str(held.tensors["experts.up.weight.master"].placement) == "expert:shard(0) data:flat"
    assert str(held.tensors["router.weight.grad"].placement) == "data:partial(sum) expert:partial(sum)"


@pytest.mark.parametrize(
    ("keys", "dims"),
    [
        ({"expert": 2, "sequence_parallel": True}, "expert:shard(0) tensor:shard(1)"),
        ({"expert": 4, "expert_tensor": 1, "sequence_parallel": True}, "expert:shard(0) tensor:shard(0)"),
    ],
)
def test_tensor_parallel_ranks_divide_each_expert_or_the_experts(keys: dict[str, Any], dims: str) -> None:
    assert str(schedule(4, tensor=2, **keys).tensors["experts.up.weight"].placement) == dims


def test_blocks_of_experts_divide_rows_evenly() -> None:
    """384 experts and 4,096 positions that choose 8: 128 blocks of 3 experts with 256 rows of every sample."""
    kimi = replace(BALANCED, experts=384, experts_per_token=8, sequence=4096)
    assert kimi.routed_rows == (128, 256)
    assert math.prod(kimi.routed_rows) == 4096 * 8
    assert replace(kimi, capacity=1.25).routed_rows == (128, 320)
    assert replace(kimi, expert_skew=1.5).routed_rows == (128, 384)


def test_parameters_are_those_of_the_graph() -> None:
    attention = H * (2 * 16 + 2 * 8) + 2 * H  # queries and output, keys and values of two of four heads, two norms
    experts, shared = 3 * E * H * F + E * H, 3 * H * 24
    assert EXPERTS.num_parameters == 4 * (attention + experts + shared) + 2 * 32 * H + H
    assert gpt(EXPERTS, 8, "none").num_parameters == EXPERTS.num_parameters
    assert EXPERTS.num_active_parameters == EXPERTS.num_parameters - 4 * 3 * 2 * H * F


@pytest.mark.parametrize(
    ("keys", "ranks", "line"),
    [
        ({"expert": 3}, 3, "expert = 3 does not divide experts = 4; nearest that do: 2 and 4"),
        ({"expert": 8}, 12, "grid expert 8 = 8 ranks does not divide 12 devices"),
        ({"expert": 2, "tensor": 4, "expert_tensor": 2}, 8, "expert_tensor = 2; allowed: 1 or tensor = 4"),
        ({"expert": 1, "tensor": 2, "expert_tensor": 1}, 4, "tensor = 2 does not divide expert = 1"),
        (
            {"expert": 2, "overlap_experts": True, "dispatch": "all_gather"},
            4,
            "overlap_experts = true: needs expert above 1",
        ),
        ({"overlap_experts": True}, 4, "overlap_experts = true: needs expert above 1 and a dispatch by all-to-alls"),
        (
            {"expert": 2, "pipeline": 2, "overlap_experts": True},
            4,
            'overlap_experts = true with order = "1f1b"; allowed',
        ),
        ({"expert": 2, "tensor": 2, "expert_tensor": 1}, 4, "allowed: sequence_parallel = true"),
        (
            {"expert": 2, "tensor": 2, "context": 2, "context_by": "gather", "sequence_parallel": True},
            4,
            "expert_tensor = 2 with context = 2: .* allowed: expert_tensor = 1, or sequence_parallel = false",
        ),
        ({"expert": 2, "data": FAMILIES["hsdp"][0](family="hsdp")}, 4, 'data.family = "hsdp" with expert = 2'),
    ],
)
def test_what_does_not_divide_is_refused_in_one_line(keys: dict[str, Any], ranks: int, line: str) -> None:
    with pytest.raises(InputError, match=line.replace("(", r"\(")):
        schedule(ranks, **keys)


def test_a_dense_model_has_no_experts_to_divide() -> None:
    with pytest.raises(InputError, match="expert = 2: test-llama-4 has no experts; allowed: 1"):
        schedule(2, replace(EXPERTS, experts=None, name="test-llama-4"), expert=2)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"experts_per_token": 5}, "experts_per_token = 5; allowed: 1 to experts = 4"),
        ({"capacity": 0.5}, "capacity = 0.5; allowed: 1 or more"),
        (
            {"expert_groups": 3},
            "experts = 4 does not divide into expert_groups = 3; nearest that does: expert_groups = ",
        ),
        ({"expert_groups": 4}, "groups_per_token = 1; allowed: 2 to expert_groups = 4"),
        ({"expert_skew": 1.5}, "expert_skew = 1.5; allowed: 1 or more, without capacity"),
        ({"dropout": True}, "dropout of a model with experts; allowed: false"),
        ({"expert_clamp": True, "gated": False}, "expert_clamp of a model with experts; allowed: gated = true"),
        ({"residual": "parallel"}, 'residual of a model with experts; allowed: "sequential"'),
    ],
)
def test_experts_that_the_graph_cannot_have_are_refused(change: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line):
        replace(EXPERTS, **change)
