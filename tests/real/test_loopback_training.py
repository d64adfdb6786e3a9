"""Any plan trained for real on ranks in one process: the weights are those of the unsharded model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.program import check, expand
from simfrontier.core.workload import Checkpointing, Optimizer
from simfrontier_real.ops.arrays import torch_backend
from simfrontier_real.train.models import batch, initial_weights
from simfrontier_real.train.states import assembled, final_states
from simfrontier_real.train.train import train_in_one_process
from simfrontier_real.train.training_settings import Adam, TrainingSettings
from simfrontier_real.verify.verdict import scheduled_bytes, why_inexact
from tests.real.schedules import (
    ENGINES,
    EXACT,
    FAMILIES,
    MESHES,
    POINTS,
    QUANTISED,
    STALE,
    distance,
    loss_distance,
    schedule,
    training,
    unsharded,
)
from tests.real.together import Training, agrees, bytes_sent
from tests.some import some

Lines = Mapping[tuple[str, int], Any]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_trains_like_the_unsharded_model(family: str) -> None:
    agrees(schedule(FAMILIES[family], (2, 2, 2), grad_accum=2, engine=ENGINES["tight"]))


def test_twenty_steps_are_as_exact_as_two() -> None:
    """Real ranks train as many by every family (`make nightly`)."""
    agrees(schedule(FAMILIES["hsdp"], (2, 1, 2), grad_accum=2, engine=ENGINES["tight"]), steps=20)


@pytest.mark.parametrize("point", POINTS)
def test_points_of_the_lattice_train_like_the_unsharded_model(point: str) -> None:
    agrees(schedule(POINTS[point], (2, 2, 2), grad_accum=2, checkpointing="none" if point == "copy" else "full"))


@settings(max_examples=20, deadline=None)
@given(
    plan=st.sampled_from(sorted(EXACT)),
    sizes=st.sampled_from(MESHES),
    grad_accum=st.integers(1, 2),
    checkpointing=st.sampled_from(["full", "none"]),
    engine=st.sampled_from(sorted(ENGINES)),
    model=st.sampled_from(["gpt", "mlp"]),
)
def test_any_plan_on_any_mesh_with_any_engine_trains_like_the_unsharded_model(
    plan: str, sizes: tuple[int, int, int], grad_accum: int, checkpointing: Checkpointing, engine: str, model: str
) -> None:
    agrees(schedule(EXACT[plan], sizes, grad_accum, checkpointing, ENGINES[engine], model=model))


def test_clipping_works_on_the_norm_of_all_ranks() -> None:
    """A norm of 0.05 is exceeded in every step, so the factor enters every update."""
    made = schedule(EXACT["odd order"], (2, 2, 2))
    loose, tight = (train_in_one_process(made, training(3, clip)) for clip in (1e9, 0.05))
    assert distance(loose.weights, tight.weights) > 1e-6
    agrees(made, steps=3, clip=0.05)


# ── what need not agree ──


def test_the_stale_copy_of_deepspeed_need_not_agree_and_does_not() -> None:
    made = schedule(STALE, (2, 1, 2), grad_accum=2)
    assert check(made).is_clean
    assert why_inexact(made, expand(made, made.roles[0])) == "forward passes read the step before's weights"
    how = training(6)
    ours, theirs = train_in_one_process(made, how), unsharded(made, how)
    assert abs(ours.losses[0] - theirs.losses[0]) < 1e-12  # there is no step before the first
    assert 1e-4 < distance(ours.weights, theirs.weights) < 0.1


@pytest.mark.parametrize("plan", QUANTISED)
def test_quantised_moves_cost_a_little_accuracy(plan: str) -> None:
    made = schedule(QUANTISED[plan], (2, 2, 2), grad_accum=2, precision="fp32")
    assert why_inexact(made, expand(made, made.roles[0])).startswith("moves are coded as int")
    how = training(4)
    ours, theirs = train_in_one_process(made, how), unsharded(made, how)
    assert distance(ours.weights, theirs.weights) > 1e-6
    assert loss_distance(ours.losses, theirs.losses) < 0.05
    assert ours.losses[-1] < ours.losses[0]


@pytest.mark.parametrize("plan", [*EXACT, *QUANTISED])
def test_messages_have_the_bytes_that_the_schedule_says(plan: str) -> None:
    made = schedule({**EXACT, **QUANTISED}[plan], (2, 2, 2), grad_accum=2, precision="fp32", model="mlp")
    together = Training(made, training(1))
    together.train_step(0)
    expected = scheduled_bytes(made, expand(made, made.roles[0]))
    assert expected > 0
    assert bytes_sent(together) == [expected] * made.mesh.num_ranks


# ── precisions ──


def test_float32_agrees_to_its_precision() -> None:
    agrees(schedule(EXACT["reversed"], (2, 1, 2), grad_accum=2, precision="fp32"), steps=10)


def test_float16_with_a_scaled_loss_learns() -> None:
    """The master weights are float32; the model's, its gradients and what is sent are float16."""
    made = schedule(FAMILIES["zero3"], (2, 1, 2), grad_accum=2, precision="fp16")
    assert why_inexact(made, expand(made, made.roles[0])) == "the model is fp16"
    how = training(12)
    ours = train_in_one_process(made, TrainingSettings(steps=12, adam=how.adam, loss_scale=128.0))
    theirs = unsharded(made, how, "fp32")
    assert ours.losses[-1] < ours.losses[0] - 0.1
    assert loss_distance(ours.losses, theirs.losses) < 0.01


def test_bfloat16_learns_on_one_rank_of_torch() -> None:
    """numpy has no bfloat16, so the loopback of several ranks cannot."""
    made = schedule(FAMILIES["zero3"], (1, 1, 1), grad_accum=2, precision="bf16")
    how = TrainingSettings(steps=12, adam=Adam(learning_rate=1e-2, epsilon=1e-5))
    ours, theirs = train_in_one_process(made, how, torch_backend()), unsharded(made, how, "fp32")
    assert loss_distance(ours.losses, theirs.losses) < 0.05
    assert ours.losses[-1] < ours.losses[0] - 0.3


@pytest.mark.parametrize("optimizer", ["adam", "lamb"])
def test_an_overflow_skips_the_step_on_every_rank(optimizer: Optimizer) -> None:
    """A loss scale of 1e9 overflows float16 gradients: no weight moves, and no rank goes its own way."""
    made = schedule(FAMILIES["zero3"], (2, 1, 2), precision="fp16", optimizer=optimizer)
    with np.errstate(over="ignore", invalid="ignore"):
        ours = train_in_one_process(made, TrainingSettings(steps=2, adam=training(1).adam, loss_scale=1e9))
    for key, values in some(initial_weights(made, 0).items()):
        assert np.array_equal(ours.weights[key], values.astype(np.float16).astype(np.float64)), key


# ── states and data ──


@pytest.mark.parametrize("model", ["gpt", "mlp"])
@pytest.mark.parametrize("plan", EXACT)
def test_what_is_placed_is_put_together_again(plan: str, model: str) -> None:
    made = schedule(EXACT[plan], (2, 2, 2), model=model)
    weights = initial_weights(made, 3)
    lines: list[Lines] = [final_states(rank.context) for rank in Training(made, TrainingSettings(seed=3)).ranks]
    back = assembled(made, lines)
    assert back.keys() == weights.keys()
    for key, values in weights.items():
        assert np.array_equal(back[key], values), key


def test_copies_that_have_parted_are_refused() -> None:
    made = schedule(FAMILIES["hsdp"], (2, 1, 2))
    ranks = Training(made, TrainingSettings()).ranks
    lines: list[Lines] = [final_states(rank.context) for rank in ranks]
    name = ("qkv.weight", 1)
    lines[2] = {**lines[2], name: lines[2][name] + 1}  # rank 2 holds what rank 0 holds, on the other node
    with pytest.raises(SimfrontierError, match=r"^qkv\.weight of layer 1: rank 2 holds other values than its copies$"):
        assembled(made, lines)


def test_ranks_split_the_batch_and_no_sample_is_seen_twice() -> None:
    made = schedule(FAMILIES["zero3"], (2, 2, 2), grad_accum=2)
    ranks = Training(made, training(1)).ranks
    for rank in ranks:
        rank.load(5)
    for micro in range(2):
        whole = batch(made, 0, 5, micro)
        labels = np.concatenate([rank.training_state.labels[0, micro] for rank in ranks])
        assert np.array_equal(labels, whole.labels[0])
    assert not np.array_equal(batch(made, 0, 5, 0).inputs, batch(made, 0, 5, 1).inputs)
    assert not np.array_equal(batch(made, 0, 5, 0).inputs, batch(made, 0, 6, 0).inputs)
