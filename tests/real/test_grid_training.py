"""Tensor grids and pipelines trained for real on ranks in one process: the weights are those of the unsharded model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any, get_args

import numpy as np
import pytest

from simfrontier.core.plan import Plan, build, make_plan
from simfrontier.core.plan.families import FAMILIES
from simfrontier.core.plan.moves import Hop
from simfrontier.core.program import Mesh
from simfrontier.core.workload import Attention, Checkpointing, CrossEntropy, gpt
from simfrontier_real.ops.attention import slopes
from simfrontier_real.ops.programs import programs_of
from simfrontier_real.train.models import initial_weights
from simfrontier_real.train.states import assembled, final_states
from simfrontier_real.train.train import train_in_one_process
from simfrontier_real.train.training_settings import TrainingSettings
from simfrontier_real.verify.verdict import scheduled_bytes
from tests.core.program.builders import mesh_of, options_of
from tests.real.grids import OTHERS, SHAPES, Grid, axonn, context, megatron
from tests.real.lowerings import MIXED, lowered_of
from tests.real.schedules import PLAIN, distance, loss_distance, training, unsharded
from tests.real.together import Training, agrees, bytes_sent, replaying
from tests.some import some

PIECES: dict[str, Any] = {"sequence_parallel": True, "product_pieces": 2}
ORDERS = [(2, "gpipe", 1), (4, "gpipe", 1), (2, "1f1b", 1), (4, "1f1b", 1), (2, "interleaved", 2), (4, "zb-h1", 1)]
V_SHAPES: list[dict[str, Any]] = [{"order": order, "chunks": 2} for order in ("zb-v", "dualpipev")]
GRIDS = [
    *(axonn(*sizes) for sizes in ((2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 1), (2, 2, 2), (2, 2, 2, 2))),
    axonn(4, 4, 1),  # every rank has one head, four features of the stream and eight words
    *(
        megatron(tensor, sequence_parallel=sequence, shape=shape)
        for tensor, sequence, shape in product((2, 4), (False, True), ("parallel", "sequential", "tied"))
    ),
    *(
        megatron(1, stages, order=order, chunks=chunks, grad_accum=4, overlap_exchange=overlap)
        for (stages, order, chunks), overlap in product(ORDERS, (False, True))
    ),
    megatron(1, 2, order="zb-h1", chunks=2, grad_accum=4, checkpointing="none"),
    *(megatron(1, 4, **keys, shape="deep", grad_accum=9) for keys in V_SHAPES),
    *(
        megatron(1, 3, **keys, shape="deep", layers="even", grad_accum=6) for keys in V_SHAPES
    ),  # layers 1 + 1, 2 + 1, 2 + 1
    *(
        megatron(1, 2, 2, **keys, shape="tied", data=data, overlap_gradients=True, grad_accum=5)
        for keys, data in product(V_SHAPES, ("ddp", "zero2", "zero3"))
    ),
    megatron(2, 2, **V_SHAPES[1], overlap_input_gradients=False, sequence_parallel=True, grad_accum=5),
    *(megatron(2, 2, **keys, **PIECES, checkpointing="selective", grad_accum=4) for keys in V_SHAPES),
    *(megatron(1, 2, 2, **keys, shape="experts", expert=2, data="zero1", grad_accum=4) for keys in V_SHAPES),
    axonn(2, 1, 2, pipeline=2, order="zb-h1", grad_accum=4),
    *(
        megatron(2, 2, 2, data=data, shape=shape, sequence_parallel=shape == "tied")
        for data, shape in product(("ddp", "zero1", "zero2", "zero3", "hsdp"), ("sequential", "tied"))
    ),
    megatron(2, **PIECES),
    megatron(2, **PIECES, batch_first=True),
    megatron(2, 2, **PIECES, shape="tied"),
    megatron(2, **PIECES, checkpointing="none", data="zero3", overlap_gradients=True),
    megatron(2, **PIECES, overlap_input_gradients=False, shape="parallel", batch_first=True),
    megatron(2, **PIECES, overlap_input_gradients=False, gather_inputs_again=False, batch_first=True, shape="llama"),
    *(axonn(2, 1, 2, 2, data=data) for data in ("zero1", "zero3", "hsdp")),
    axonn(2, 2, 1, pipeline=2),
    megatron(1, 3, 2, layers=(2, 1, 1), data="zero3", grad_accum=3),
    megatron(1, 3, layers=(0, 4, 0), shape="tied", grad_accum=3),
    megatron(2, 2, order="interleaved", chunks=2, layers=(1, 2, 1, 0)),
    axonn(2, 1, 2, checkpoint_every=3),
    megatron(2, 2, checkpoint_every=2, data="zero3"),
    axonn(1, 2, 2, shape="tied", pipeline=2, data="zero1"),
    axonn(2, 2, 1, oar=False, ors=False, oag=False, checkpointing="none"),
    axonn(1, 2, 2, gather_again=True, shape="parallel"),
    axonn(1, 1, 2, 2, mode="easy", gather_again=True),
    axonn(2, 2, 1, shape="mlp"),
    megatron(2, 2, 2, shape="mlp"),
    megatron(2, 2, 1, checkpointing="none", shape="parallel"),
    megatron(2, 1, 2, overlap_input_gradients=False, overlap_gradients=True),
    axonn(2, 2, 1, attention="fused", checkpointing="none"),
    megatron(2, 2, 1, attention="fused"),
    axonn(2, 2, 2, precision="fp32"),
    megatron(2, 2, 2, precision="fp32"),
    *(context(ranks, "gather", tensor) for ranks, tensor in ((2, 1), (4, 1), (2, 2))),
    *(context(ranks, "ring", tensor) for ranks, tensor in ((2, 1), (4, 1), (2, 2))),
    context(4, "ring", checkpointing="none", shape="wide heads"),
    context(2, "ring", 2, 2, data="zero1", sequence_parallel=True),
    context(4, "ring", 1, 2, context_heads=2, data="zero3", checkpointing="none"),
    context(2, "ring", replicas=2, pipeline=2, order="zb-h1", grad_accum=4, checkpointing="none"),
    context(2, "heads", 1, 2, shape="experts", expert=2, data="zero1"),
    context(2, "ring", 2, shape="experts", expert=4, expert_tensor=1, sequence_parallel=True, data="zero3"),
    context(2, "gather", attention="plain", checkpointing="selective"),
    context(2, "gather", 2, 2, data="zero1", sequence_parallel=True),
    context(2, "gather", 1, 2, data="zero3", checkpointing="none"),
    context(4, "gather", context_heads=2),
    context(2, "heads", attention="plain"),
    context(4, "heads", shape="sequential"),
    context(2, "heads", 2, 2, shape="sequential", sequence_parallel=True, data="zero3", checkpointing="none"),
    axonn(2, 1, 2, 2, optimizer="lamb", data="zero1"),
    megatron(2, 2, 1, optimizer="lamb", shape="tied", sequence_parallel=True),  # both ends step the table
    megatron(2, 1, 2, optimizer="lamb", data="zero1", gather="next_forward", overlap_gradients=True),
    *(
        megatron(1, 1, 4, expert=expert, dispatch=dispatch, shape=shape, data=data)
        for (expert, data), dispatch, shape in product(
            ((2, "zero1"), (4, "zero3")), ("all_to_all", "all_gather"), ("experts", "drops")
        )
    ),
    megatron(2, 1, 2, expert=4, expert_tensor=1, sequence_parallel=True, shape="experts", data="zero1"),
    megatron(2, 1, 2, expert=2, expert_tensor=1, sequence_parallel=True, shape="experts", checkpointing="none"),
    megatron(2, 1, 2, expert=2, sequence_parallel=True, shape="experts", data="zero3"),
    megatron(2, 1, 2, expert=2, shape="experts"),
    megatron(1, 2, 2, expert=2, shape="experts", engine=replace(PLAIN, synchronise="experts")),
    megatron(2, 1, 2, expert=2, shape="clamped"),
    megatron(
        2, 1, 4, expert=4, expert_tensor=1, context=2, context_by="gather", sequence_parallel=True, shape="experts"
    ),
    megatron(1, 1, 4, expert=4, context=2, context_by="heads", shape="experts"),
    megatron(1, 1, 4, expert=4, context=2, context_by="ring", shape="experts", data="zero1", attention="fused"),
    megatron(1, 2, 2, expert=2, shape="drops", checkpointing="none", attention="fused"),
    megatron(2, 1, 2, expert=4, expert_tensor=1, sequence_parallel=True, shape="deepseek", data="zero1"),
    megatron(1, 2, 2, expert=2, shape="deepseek", attention="fused", data="zero3"),
    megatron(1, 1, 2, checkpointing="none", data="zero3", offload_activations=2),
    megatron(2, 2, 2, shape="llama", **PIECES, data="zero1", checkpointing="none", offload_activations=2),
    megatron(1, 2, order="zb-h1", grad_accum=4, checkpointing="none", offload_activations=1),
    megatron(1, 2, **V_SHAPES[1], shape="deep", grad_accum=4, checkpointing="none", offload_activations=2),
    megatron(1, 2, 2, shape="deepseek", expert=2, checkpointing="selective", offload_activations=2),
    context(2, "ring", checkpointing="none", offload_activations=3),
    axonn(2, 1, 2, shape="dropped", offload_activations=4),
    megatron(1, 1, 2, shape="further", data="zero3", checkpointing="none"),
    megatron(2, 2, 2, shape="further two", layers=(4, 2), sequence_parallel=True, data="zero1"),
    megatron(2, 2, 2, shape="further experts", layers="even", expert=2, expert_tensor=1, sequence_parallel=True),
    megatron(1, 1, 4, shape="further experts", expert=4, optimizer="muon"),
    megatron(1, 2, shape="further two", order="zb-v", chunks=2, layers=(2, 1, 1, 2), grad_accum=4),
    megatron(1, 2, shape="further", order="zb-h1", layers="even", grad_accum=4, checkpointing="selective"),
    megatron(2, shape="further", **PIECES, cross_entropy="mn-merge"),
    context(2, "ring", shape="further"),
    megatron(1, 3, 2, layers=(1, 2, 1), expert=2, shape="deepseek", data="zero1", grad_accum=4, checkpointing="none"),
    megatron(2, 2, layers=(0, 2, 1, 1), order="zb-v", chunks=2, shape="deepseek", grad_accum=3),
    megatron(1, 1, 2, shape="experts", data="hsdp"),
    megatron(1, 1, 2, expert=2, dispatch="deepep", shape="experts"),
    *(
        megatron(1, stages, 2, expert=2, **keys, overlap_experts=True, shape="experts", data="zero1", grad_accum=4)
        for stages, keys in ((1, {}), (2, {"order": "interleaved", "chunks": 2}))
    ),
]


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_grids_and_pipelines_train_like_the_unsharded_model(grid: Grid) -> None:
    agrees(grid.schedule)


@pytest.mark.parametrize("stages", [2, 4])
def test_1f1b_gives_the_same_bits_as_gpipe(stages: int) -> None:
    """Both run the backwards of a stage from the first micro-batch to the last, so every sum has the same order."""
    ours, theirs = (
        train_in_one_process(megatron(1, stages, order=order, grad_accum=4).schedule, training(2))
        for order in ("1f1b", "gpipe")
    )
    assert ours.losses == theirs.losses
    for key, values in ours.weights.items():
        assert np.array_equal(values, theirs.weights[key]), key


def test_interleaved_stages_differ_from_gpipe_by_rounding_only() -> None:
    """A stage holds other layers, so the squares of the gradient's norm are summed in another order."""
    ours, theirs = (
        train_in_one_process(megatron(1, 2, order=order, chunks=chunks, grad_accum=4).schedule, training(2))
        for order, chunks in (("interleaved", 2), ("gpipe", 1))
    )
    assert distance(ours.weights, theirs.weights) <= 1e-13


# ── what people train, at tiny sizes ──


@pytest.mark.parametrize("shape", OTHERS)
@pytest.mark.parametrize("family", ["ddp", "zero3"])
def test_every_shape_trains_like_the_unsharded_model(family: str, shape: str) -> None:
    mesh = mesh_of(2, 1, 2)
    ways: list[tuple[Attention, Checkpointing]] = [("plain", "full"), ("fused", "none")]
    for attention, checkpointing in ways:
        workload = gpt(OTHERS[shape], 8, checkpointing, precision="fp64", attention=attention)
        plan, engine = make_plan(family, options_of(family), mesh), replace(PLAIN, persistence_elements=0)
        agrees(build(workload, plan, mesh, engine, 2))


SOME = [
    megatron(2, 1, 2),
    megatron(2, sequence_parallel=True),
    megatron(2, 2, data="zero1"),
    megatron(2, 1, attention="fused", checkpointing="none"),
    axonn(2, 2, 2),
    megatron(2, 2, checkpointing="selective", sequence_parallel=True),
    axonn(2, 2, 1, checkpointing="selective"),
    axonn(2, 1, 1, attention="fused"),
]


def shapes_on_grids() -> Iterator[Any]:
    """Every shape on every grid; half of the pairs are long."""
    for (number, shape), (place, grid) in product(enumerate(OTHERS), enumerate(SOME)):
        marks = [pytest.mark.long] * ((number + place) % 2)
        yield pytest.param(replace(grid, shape=shape), marks=marks, id=f"{grid}, {shape}")


@pytest.mark.parametrize("grid", list(shapes_on_grids()))
def test_every_shape_trains_on_grids_like_the_unsharded_model(grid: Grid) -> None:
    agrees(grid.schedule)


def test_slopes_of_twelve_heads_by_hand() -> None:
    """Eight heads: 1/2, 1/4 … 1/256. Then the first, third … of sixteen: 2^−0.5, 2^−1.5, 2^−2.5, 2^−3.5."""
    by_hand = [2.0**-n for n in range(1, 9)] + [2.0**-0.5, 2.0**-1.5, 2.0**-2.5, 2.0**-3.5]
    assert np.allclose(slopes(12), by_hand, rtol=1e-15, atol=0)


# ── one axis that cuts tokens in most ops and heads in attention: all-to-alls between ──

OF_HEADS = ("attention", "scores", "softmax", "context")
MESH = Mesh((("data", 2), ("tokens", 2)))


def plan_of(data: str) -> Plan:
    """A plan of the data axis, whose weights are the same along `tokens` and summed over it at the end of the step."""
    plan: Plan = FAMILIES[data][1]("shared", FAMILIES[data][0](family=data), MESH, ("data",))
    return replace(
        plan,
        hops=dict(plan.hops)
        | {"step_reduction": (*plan.hops["step_reduction"], Hop(("tokens",))), "scalar": (Hop(MESH.names),)},
        sequence="tokens",
        cuts_of_kind={(kind, "a"): ("tokens",) for kind in OF_HEADS},
        gathers_again=False,
        gathers_inputs_again=False,
        hooks=False,
        groups="lane",
    )


@pytest.mark.parametrize(
    ("shape", "attention", "data"),
    [
        ("sequential", "plain", "ddp"),
        ("llama", "fused", "zero1"),
        ("tied", "plain", "zero3"),
        ("gpt-2", "fused", "zero3"),
        ("bloom", "plain", "ddp"),
    ],
)
def test_attention_by_heads_beside_tokens_trains_like_the_unsharded_model(
    shape: str, attention: Attention, data: str
) -> None:
    workload = gpt(SHAPES[shape], 4, "full", precision="fp64", attention=attention)
    agrees(build(workload, plan_of(data), MESH, PLAIN, 2))


# ── precision, clipping, explicit transfers ──


def test_float16_on_a_grid_stays_near_the_unsharded_model() -> None:
    """Moments of norms and terms of the loss are wide numbers, so a cut costs no more than 16-bit values do."""
    made = axonn(2, 2, 1, precision="fp16").schedule
    assert made.tensors["ln1.moments"].dtype == made.tensors["loss.terms"].dtype == "fp32"
    how = TrainingSettings(steps=6, adam=training(1).adam, loss_scale=128.0)
    assert loss_distance(train_in_one_process(made, how).losses, unsharded(made, training(6)).losses) < 0.01


@pytest.mark.parametrize("grid", [axonn(2, 2, 2), megatron(2, 2, 2, sequence_parallel=True)], ids=str)
def test_lowered_collectives_train_a_grid_too(grid: Grid) -> None:
    """The largest logits are combined as such, not summed; exchanges go as they are."""
    made = grid.schedule
    ours = train_in_one_process(made, training(2), lowered=lowered_of(made, MIXED))
    assert distance(ours.weights, unsharded(made, training(2)).weights) <= 1e-10


def test_clipping_works_on_the_norm_of_all_stages_and_shards() -> None:
    """A norm of 0.05 is exceeded in every step: a weight that is counted twice, or not, changes every update."""
    for grid in (megatron(2, 2, 2, shape="tied", sequence_parallel=True), axonn(2, 2, 2)):
        agrees(grid.schedule, clip=0.05)


# ── what ranks hold, get and send ──


@pytest.mark.parametrize("grid", [axonn(2, 2, 2, 2), megatron(2, 2, 2, data="zero3", shape="tied")], ids=str)
def test_what_is_placed_is_put_together_again(grid: Grid) -> None:
    made = grid.schedule
    back = assembled(made, [final_states(rank.context) for rank in Training(made, training(1)).ranks])
    for key, values in some(initial_weights(made, 0).items()):
        assert np.array_equal(back[key], values), key


@pytest.mark.parametrize(
    "grid",
    [
        axonn(2, 2, 2, pipeline=2),
        *(megatron(2, 2, 2, shape="tied", cross_entropy=way) for way in get_args(CrossEntropy)),
    ],
    ids=str,
)
def test_training_and_replay_move_the_bytes_that_the_schedule_says(grid: Grid) -> None:
    made = grid.schedule
    programs = programs_of(made)
    expected = [scheduled_bytes(made, programs.of(rank)) for rank in range(made.mesh.num_ranks)]
    assert all(expected)
    trained = Training(made, training(1))
    trained.train_step(0)
    assert bytes_sent(trained) == expected
    assert sum(rank.loss() > 0 for rank in trained.ranks) == made.mesh.size(
        ("data", "z") if grid.family == "axonn" else ("data",)
    )
    replayed = replaying(made, "none")
    replayed.run_step()
    assert bytes_sent(replayed) == expected
