"""LAMB on ranks in one process: every tensor moves by its own norm, whoever holds its parts; and states in 16 bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simfrontier.core.program import Schedule, check
from simfrontier_real.ops.arrays import torch_backend
from simfrontier_real.train.models import initial_weights
from simfrontier_real.train.reference import ReferenceOptimizer
from simfrontier_real.train.train import train_in_one_process
from simfrontier_real.train.training_settings import Adam, TrainingSettings
from tests.real.schedules import ENGINES, EXACT, FAMILIES, distance, loss_distance, schedule, training, unsharded
from tests.real.together import Training, agrees


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_trains_like_the_unsharded_model(family: str) -> None:
    agrees(schedule(FAMILIES[family], (2, 1, 2), grad_accum=2, engine=ENGINES["tight"], optimizer="lamb"))


def test_a_step_by_hand() -> None:
    """The first step of Adam is the sign of the gradient (ε = 0): u = (1, −1), of length √2. The weight (3, 4) has
    length 5, so the scale is 5/√2, and it moves by 0.1 × 5/√2 in each number: (3 − 0.35355, 4 + 0.35355)."""
    import torch

    weight = torch.tensor([3.0, 4.0], dtype=torch.float64, requires_grad=True)
    weight.grad = torch.tensor([0.2, -7.0], dtype=torch.float64)
    made = schedule(FAMILIES["ddp"], (1, 1, 2), optimizer="lamb")
    ReferenceOptimizer(made, {("w", 0): weight}, Adam(learning_rate=0.1, epsilon=0.0)).step()
    move = 0.1 * 5 / 2**0.5
    assert np.allclose(weight.detach().numpy(), [3 - move, 4 + move], atol=1e-12)


# ── states of 16 bits ──


def only_rank(made: Schedule, adam: Adam) -> Training:
    """The one rank of a schedule, ready to train."""
    return Training(made, TrainingSettings(adam=adam), backend=torch_backend())


def error_of_step(together: Training, number: int) -> float:
    """How far the step of that number moves a master from where the check of updates would have it."""
    (rank,) = together.ranks
    together.train_step(number)
    rank.record_step()
    return rank.report().gradients[-1].update.error


def bf16(plan: str, **how: Any) -> Schedule:
    """On one rank: numpy has no bfloat16, so the loopback of several cannot (real ranks do: `test_gloo_training`)."""
    return schedule(EXACT[plan], (1, 1, 1), precision="bf16", grad_accum=2, **how)


@pytest.mark.parametrize("optimizer", ["adam", "lamb"])
def test_moments_in_bf16_cost_little(optimizer: Any) -> None:
    """Weights are near those of the unsharded model whose moments are rounded, too."""
    made, how = bf16("zero3", moments="bf16", optimizer=optimizer), training(4)
    assert str(check(made)) == "no findings"
    ours, theirs = train_in_one_process(made, how, torch_backend()), unsharded(made, how, "fp32")
    assert loss_distance(ours.losses, theirs.losses) < 0.01
    assert distance(ours.weights, theirs.weights) < 0.05


def test_masters_in_bf16_lose_what_is_less_than_half_a_step() -> None:
    """Neighbours of bf16 around 0.75 are 2^-8 apart; moves of the learning rate, 0.001, stay below half of that, so
    weights from 0.5 on never move, while those of a model with wide masters do."""
    narrow, wide = (
        train_in_one_process(bf16("zero1", master=master), training(3), torch_backend()) for master in ("bf16", None)
    )
    start = initial_weights(bf16("zero1"), 0)
    large = {key: np.abs(values) >= 0.51 for key, values in start.items()}
    for key, values in start.items():
        at_first = values[large[key]]
        assert np.allclose(narrow.weights[key][large[key]], at_first, rtol=2**-8, atol=0)
    moved = [np.abs(wide.weights[key] - narrow.weights[key])[large[key]] for key in start]
    assert max(float(each.max()) for each in moved if each.size) > 0


def test_the_check_of_updates_sees_a_wrong_step_in_narrow_states() -> None:
    """Steps of 0.01 are several times the distance of neighbours; twice the learning rate is seen at once."""
    made = bf16("zero1", master="bf16", moments="bf16")
    for factor, least, most in ((1.0, 0.0, 0.01), (2.0, 0.5, 2.0)):
        adam = Adam(learning_rate=1e-2, epsilon=1e-5)
        together = only_rank(made, adam)
        together.ranks[0].training_state.adam = replace(adam, learning_rate=factor * 1e-2)
        seen = [error_of_step(together, number) for number in range(3)]
        assert least <= max(seen) <= most, (factor, seen)
