"""Tensor grids and pipelines trained for real on ranks in one process: the weights are those of the unsharded model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simfrontier.core.program import check
from simfrontier_real.ops.programs import programs_of
from simfrontier_real.train.initial_states import initial_weights
from simfrontier_real.train.states import assembled, final_states
from simfrontier_real.train.train import train_in_one_process
from simfrontier_real.train.training_settings import TrainingResult, TrainingSettings
from simfrontier_real.verify.verdict import scheduled_bytes, why_inexact
from tests.real.grids import Grid, axonn, megatron
from tests.real.lowerings import MIXED, lowered_of
from tests.real.schedules import distance, loss_distance, training, unsharded as reference
from tests.real.together import Training, bytes_sent, replaying
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


@pytest.mark.parametrize("grid", [axonn(2, 2, 2, 2), megatron(2, 2, 2, data="zero3", shape="tied")], ids=str)
def test_what_is_placed_is_put_together_again(grid: Grid) -> None:
    made = grid.schedule
    back = assembled(made, [final_states(rank.context) for rank in Training(made, training(1)).ranks])
    for key, values in some(initial_weights(made, 0).items()):
        assert np.array_equal(back[key], values), key


@pytest.mark.parametrize("grid", [axonn(2, 2, 2, pipeline=2), megatron(2, 2, 2, shape="tied")], ids=str)
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
