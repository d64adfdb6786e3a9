"""Tensor grids and pipelines trained for real on ranks in one process: the weights are those of the unsharded model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from simfrontier.errors import SimfrontierError
from simfrontier.schedule import Mesh, Placement, Ref, check
from simfrontier.workload import Checkpointing
from simfrontier_real import initial_states, states
from simfrontier_real.arrays import numpy_backend
from simfrontier_real.data import batch
from simfrontier_real.executor import inline, run_together
from simfrontier_real.initial_states import initial_weights
from simfrontier_real.layout import layouts_of
from simfrontier_real.loopback import LoopbackWorld
from simfrontier_real.op_runner import RealOpRunner
from simfrontier_real.operands import Operands
from simfrontier_real.programs import programs_of
from simfrontier_real.rank_context import rank_context_of
from simfrontier_real.replay import ReplayRunner, StandInKernels
from simfrontier_real.states import assembled, final_states
from simfrontier_real.train import TrainingRank, train_in_one_process
from simfrontier_real.training_result import TrainingResult
from simfrontier_real.training_settings import TrainingSettings
from simfrontier_real.verdict import scheduled_bytes, why_inexact
from tests.real.grids import Grid, axonn, megatron
from tests.real.lowerings import MIXED, lowered_of
from tests.real.schedules import distance, loss_distance, training, unsharded as reference
from tests.some import some

EQUAL = {"fp64": 1e-10, "fp32": 1e-5}  # as the verdict allows


def unsharded(grid: Grid, steps: int) -> TrainingResult:
    return reference(grid.schedule, training(steps), grid.precision)


def agrees(grid: Grid, steps: int = 2) -> TrainingResult:
    """The schedule is sound, need not excuse itself, and trains to the unsharded model's weights and losses: two steps,
    as `make mutants` takes, because the second reads the weights and moments of the first."""
    made = grid.schedule
    assert str(check(made)) == "no findings"
    assert {why_inexact(made, program) for program in programs_of(made).of_roles} == {""}
    ours, theirs = train_in_one_process(made, training(steps)), unsharded(grid, steps)
    assert distance(ours.weights, theirs.weights) <= EQUAL[grid.precision]
    assert loss_distance(ours.losses, theirs.losses) <= EQUAL[grid.precision]
    assert distance(ours.weights, initial_weights(made, 0)) > 1e-3  # it moved
    return ours


@pytest.mark.parametrize(
    "sizes", [(2, 1, 1, 1), (1, 2, 1, 1), (1, 1, 2, 1), (2, 2, 1, 1), (2, 2, 2, 1), (2, 2, 2, 2)], ids=str
)
def test_every_grid_of_axonn_trains_like_the_unsharded_model(sizes: tuple[int, int, int, int]) -> None:
    agrees(axonn(*sizes))


def test_a_step_of_one_micro_batch_trains_like_the_unsharded_model() -> None:
    agrees(axonn(2, 2, 2, grad_accum=1))
    agrees(megatron(2, 2, 2, grad_accum=1))


def test_a_grid_of_four_by_four_trains_like_the_unsharded_model() -> None:
    """Every rank has one head, four features of the stream and eight words."""
    agrees(axonn(4, 4, 1))


@pytest.mark.parametrize("shape", ["parallel", "sequential", "tied"])
@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["whole", "sequence"])
@pytest.mark.parametrize("tensor", [2, 4])
def test_tensor_parallelism_trains_like_the_unsharded_model(tensor: int, sequence_parallel: bool, shape: str) -> None:
    agrees(megatron(tensor, sequence_parallel=sequence_parallel, shape=shape))


@pytest.mark.parametrize(
    ("stages", "order", "chunks"),
    [(2, "gpipe", 1), (4, "gpipe", 1), (2, "1f1b", 1), (4, "1f1b", 1), (2, "interleaved", 2)],
)
@pytest.mark.parametrize("overlap", [False, True], ids=["blocking", "overlapped"])
def test_pipelines_train_like_the_unsharded_model(stages: int, order: str, chunks: int, overlap: bool) -> None:
    agrees(megatron(1, stages, order=order, chunks=chunks, grad_accum=4, overlap_exchange=overlap))


def test_four_stages_of_two_chunks_train_like_the_unsharded_model() -> None:
    """Eight layers: the first chunks' last stage hands over to the second chunks' first, so messages go in a circle."""
    agrees(megatron(1, 4, order="interleaved", chunks=2, grad_accum=4, shape="deep"))


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


@pytest.mark.parametrize("data", ["ddp", "zero1", "zero2", "zero3", "hsdp"])
@pytest.mark.parametrize("shape", ["sequential", "tied"])
def test_tensor_pipeline_and_data_together_train_like_the_unsharded_model(data: str, shape: str) -> None:
    agrees(megatron(2, 2, 2, data=data, shape=shape, sequence_parallel=shape == "tied"))


@pytest.mark.parametrize("data", ["zero1", "zero2"])
def test_gradients_all_reduced_over_the_data_axes_train_like_the_unsharded_model(data: str) -> None:
    agrees(megatron(2, 2, 2, data=data, reduction="all_reduce", shape="tied", sequence_parallel=True))
    agrees(axonn(2, 1, 2, 2, data=data, reduction="all_reduce"))


@pytest.mark.parametrize("pipeline", [{}, {"pipeline": 2}, {"pipeline": 2, "order": "interleaved", "chunks": 2}])
def test_weights_gathered_beside_the_first_forward_train_like_the_unsharded_model(pipeline: dict[str, Any]) -> None:
    keys = {"data": "zero1", "gather": "next_forward", "shape": "tied", **pipeline}
    agrees(megatron(2, replicas=2, overlap_gradients=True, sequence_parallel=True, **keys))


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"batch_first": True},
        {"pipeline": 2, "shape": "tied"},
        {"checkpointing": "none", "data": "zero3", "overlap_gradients": True},
        {"overlap_input_gradients": False, "shape": "parallel", "batch_first": True},
        {"overlap_input_gradients": False, "gather_inputs_again": False, "batch_first": True, "shape": "llama"},
    ],
    ids=str,
)
def test_products_in_pieces_train_like_the_unsharded_model(keys: dict[str, Any]) -> None:
    agrees(megatron(2, sequence_parallel=True, product_pieces=2, **keys))


@pytest.mark.parametrize("checkpointing", ["full", "none"])
def test_values_copied_in_their_order_and_kept_train_like_the_unsharded_model(checkpointing: Checkpointing) -> None:
    keys = {"batch_first": True, "gather_inputs_again": False, "overlap_input_gradients": False}
    agrees(megatron(2, 2, sequence_parallel=True, checkpointing=checkpointing, **keys))


@pytest.mark.parametrize("data", ["zero1", "zero3", "hsdp"])
def test_plans_of_the_data_axes_train_like_the_unsharded_model_on_axonns_grid(data: str) -> None:
    agrees(axonn(2, 1, 2, 2, data=data))


@pytest.mark.parametrize(
    "grid",
    [
        axonn(2, 2, 1, pipeline=2),
        axonn(2, 1, 2, checkpoint_every=3),
        megatron(2, 2, checkpoint_every=2, data="zero3"),
        axonn(1, 2, 2, shape="tied", pipeline=2, data="zero1"),
        axonn(2, 2, 1, oar=False, ors=False, oag=False, checkpointing="none"),
        axonn(1, 2, 2, gather_again=True, shape="parallel"),
        axonn(2, 2, 1, shape="mlp"),
        megatron(2, 2, 2, shape="mlp"),
        megatron(2, 2, 1, checkpointing="none", shape="parallel"),
        megatron(2, 1, 2, overlap_input_gradients=False, overlap_gradients=True),
        axonn(2, 2, 1, attention="fused", checkpointing="none"),
        megatron(2, 2, 1, attention="fused"),
    ],
    ids=str,
)
def test_other_points_train_like_the_unsharded_model(grid: Grid) -> None:
    agrees(grid)


@pytest.mark.parametrize("grid", [axonn(2, 2, 2, precision="fp32"), megatron(2, 2, 2, precision="fp32")], ids=str)
def test_float32_agrees_to_its_precision(grid: Grid) -> None:
    agrees(grid, steps=3)


def test_float16_on_a_grid_stays_near_the_unsharded_model() -> None:
    """Moments of norms and terms of the loss are wide numbers, so a cut costs no more than 16-bit values do."""
    made = axonn(2, 2, 1, precision="fp16").schedule
    assert made.tensors["ln1.moments"].dtype == made.tensors["loss.terms"].dtype == "fp32"
    how = TrainingSettings(steps=6, adam=training(1).adam, loss_scale=128.0)
    assert loss_distance(train_in_one_process(made, how).losses, reference(made, training(6)).losses) < 0.01


@pytest.mark.parametrize("grid", [axonn(2, 2, 2), megatron(2, 2, 2, sequence_parallel=True)], ids=str)
def test_lowered_collectives_train_a_grid_too(grid: Grid) -> None:
    """The largest logits are combined as such, not summed; exchanges go as they are."""
    made = grid.schedule
    ours = train_in_one_process(made, training(2), lowered=lowered_of(made, MIXED))
    assert distance(ours.weights, unsharded(grid, 2).weights) <= 1e-10


def test_clipping_works_on_the_norm_of_all_stages_and_shards() -> None:
    """A norm of 0.05 is exceeded in every step: a weight that is counted twice, or not, changes every update."""
    for grid in (megatron(2, 2, 2, shape="tied", sequence_parallel=True), axonn(2, 2, 2)):
        made = grid.schedule
        how = training(2, clip=0.05)
        assert distance(train_in_one_process(made, how).weights, reference(made, how).weights) <= 1e-10


# ── what ranks hold, get and send ──


def ranks_of(grid: Grid) -> list[TrainingRank]:
    made = grid.schedule
    programs, world = programs_of(made), LoopbackWorld(made.mesh)
    return [
        TrainingRank(made, programs.of(rank), numpy_backend(), rank, world.transport(rank), training(1))
        for rank in range(made.mesh.num_ranks)
    ]


@pytest.mark.parametrize("grid", [axonn(2, 2, 2, 2), megatron(2, 2, 2, data="zero3", shape="tied")], ids=str)
def test_what_is_placed_is_put_together_again(grid: Grid) -> None:
    made = grid.schedule
    back = assembled(made, [final_states(rank.context) for rank in ranks_of(grid)])
    for key, values in some(initial_weights(made, 0).items()):
        assert np.array_equal(back[key], values), key


def test_a_stage_holds_its_own_layers_only() -> None:
    """Two stages of four layers: the embedding is on the first, the head on the last, a tied table on both."""
    for shape, on_last in (("sequential", {"head.weight"}), ("tied", {"embedding.weight"})):
        first, last = (set(final_states(rank.context)) for rank in ranks_of(megatron(1, 2, shape=shape)))
        assert {layer for name, layer in first if name == "qkv.weight"} == {0, 1}
        assert {layer for name, layer in last if name == "qkv.weight"} == {2, 3}
        ends = {"embedding.weight", "head.weight", "final_norm.weight"}
        assert {name for name, _ in first} & ends == {"embedding.weight"}
        assert {name for name, _ in last} & ends == {"final_norm.weight"} | on_last


def test_inputs_go_to_the_first_stage_and_labels_to_the_last() -> None:
    """Ranks that share samples along other axes get the same ones; the samples together are the batch."""
    grid = megatron(2, 2, 2)
    ranks = ranks_of(grid)  # (stage, data, tensor)
    for rank in ranks:
        rank.load(0)
    whole = batch(grid.schedule, 0, 0, 1)
    tokens = [rank.context.buffers.by_ref.get(Ref("tokens", 0, 1)) for rank in ranks]
    labels = [rank.training_state.labels.get(1) for rank in ranks]
    assert tokens[4:] == [None] * 4 and labels[:4] == [None] * 4
    assert np.array_equal(tokens[0], tokens[1]) and np.array_equal(labels[6], labels[7])
    assert np.array_equal(np.concatenate([tokens[0], tokens[2]]), whole.inputs)
    assert np.array_equal(np.concatenate([labels[4], labels[6]]), whole.labels)


@pytest.mark.parametrize("grid", [axonn(2, 2, 2, pipeline=2), megatron(2, 2, 2, shape="tied")], ids=str)
def test_training_and_replay_move_the_bytes_that_the_schedule_says(grid: Grid) -> None:
    made = grid.schedule
    programs = programs_of(made)
    expected = [scheduled_bytes(made, programs.of(rank)) for rank in range(made.mesh.num_ranks)]
    assert all(expected)
    ranks = ranks_of(grid)
    for rank in ranks:
        rank.load(0)
    run_together([inline(rank.step) for rank in ranks])
    assert [sum(rank.step.message_bytes.values()) for rank in ranks] == expected
    assert sum(rank.loss() > 0 for rank in ranks) == made.mesh.size(
        ("data", "z") if grid.family == "axonn" else ("data",)
    )
    world = LoopbackWorld(made.mesh)
    for rank in ranks:
        program = programs.of(rank.context.rank)
        site = rank_context_of(made, program, layouts_of(made, program), numpy_backend(), rank.context.rank)
        rank.step.op_runner = ReplayRunner(site, StandInKernels("none"))
        rank.step.transport = world.transport(rank.context.rank)
        rank.step.message_bytes.clear()
    run_together([inline(rank.step) for rank in ranks])
    assert [sum(rank.step.message_bytes.values()) for rank in ranks] == expected


# ── faults of the backend that must show ──


def differs(grid: Grid) -> float:
    """How far the weights are from the unsharded model's; infinitely where copies part."""
    try:
        return distance(train_in_one_process(grid.schedule, training(2)).weights, unsharded(grid, 2).weights)
    except SimfrontierError:
        return float("inf")


@pytest.mark.parametrize("grid", [axonn(2, 2, 1), megatron(2)], ids=str)
def test_a_bias_that_every_rank_adds_shows(monkeypatch: pytest.MonkeyPatch, grid: Grid) -> None:
    assert differs(grid) <= 1e-10
    monkeypatch.setattr(Operands, "cuts", lambda self, labels: ())
    assert differs(grid) > 1e-3


@pytest.mark.parametrize("name", ["dense.weight", "embedding.weight", "h_to_4h.bias"])
def test_a_shard_at_the_wrong_coordinate_shows(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """One weight's blocks change places among the ranks: they are not those that the other weights fit."""
    block_of = states.block_of
    grid = axonn(1, 2, 1)

    def turned(
        shape: tuple[int, ...], placement: Placement, mesh: Mesh, at: Mapping[str, int], what: str
    ) -> tuple[slice, ...]:
        return block_of(shape, placement, mesh, {**at, "y": 1 - at["y"]} if what.startswith(name) else at, what)

    assert differs(grid) <= 1e-10
    for module in (initial_states, states):
        monkeypatch.setattr(module, "block_of", turned)
    assert differs(grid) > 1e-3


def test_sums_that_are_taken_for_maxima_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the largest logit is formed, its largest value is what counts; everywhere else it is the sum."""
    grid = megatron(2)
    monkeypatch.setattr(RealOpRunner, "reduction", lambda self, index: "max")
    assert differs(grid) > 1e-3
