"""The model's kernels: gradients of whole steps against finite differences, and numpy against torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from simfrontier.core.program import Schedule
from simfrontier.core.workload import Checkpointing
from simfrontier_real.ops.arrays import numpy_backend, torch_backend
from simfrontier_real.train.models import initial_weights, place
from simfrontier_real.train.reference import train_unsharded
from simfrontier_real.train.train import train_in_one_process
from tests.real.schedules import FAMILIES, distance, schedule, training
from tests.real.together import Training

MODELS = ("gpt", "mlp")


def gradients_of(made: Schedule) -> dict[tuple[str, int], Any]:
    """The gradients of the first step of one rank, in the shapes of their weights, before they are clipped."""
    together = Training(made, training(1))
    together.train_step(0)
    (rank,) = together.ranks
    held = rank.training_state.gradients.items()
    shapes = {key: made.tensors[key[0]].shape for key, _ in held}
    return {key: line[: math.prod(shapes[key])].reshape(shapes[key]) for key, line in held}


@pytest.mark.parametrize("checkpointing", ["none", "full"])
@pytest.mark.parametrize("model", MODELS)
def test_gradients_of_a_step_are_those_of_finite_differences(model: str, checkpointing: Checkpointing) -> None:
    """Without any other autograd: (loss(w + h·d) − loss(w − h·d)) / 2h along a random direction d of each weight
    equals its gradient times d; the error of h = 1e-5 is about h² and ε/h, far below 1e-6."""
    made = schedule(FAMILIES["ddp"], (1, 1, 1), checkpointing=checkpointing, model=model)
    gradients = gradients_of(made)
    assert gradients.keys() == initial_weights(made, 0).keys()
    numbers = np.random.default_rng(0)
    for key in gradients:
        direction = numbers.normal(size=gradients[key].shape)
        up, down = (loss_at(made, key, sign * 1e-5 * direction) for sign in (1, -1))
        expected = (up - down) / 2e-5
        assert float((gradients[key] * direction).sum()) == pytest.approx(expected, abs=2e-8, rel=1e-6), key


def loss_at(made: Schedule, key: tuple[str, int], change: Any) -> float:
    """The loss of the first step with one weight moved, by the schedule's own forward kernels."""
    together = Training(made, training(1))
    (rank,) = together.ranks
    weights = initial_weights(made, 0)
    weights[key] = weights[key] + change
    place(rank.context, weights)
    together.train_step(0)
    return rank.loss()


@pytest.mark.parametrize("model", MODELS)
def test_a_first_step_without_clipping_moves_weights_as_torch_does(model: str) -> None:
    made = schedule(FAMILIES["ddp"], (1, 1, 1), 2, model=model)
    how = training(5, clip=1e9)
    assert distance(train_in_one_process(made, how).weights, train_unsharded(made, how).weights) <= 1e-10


@pytest.mark.parametrize("precision", ["fp64", "fp32"])
@pytest.mark.parametrize("model", MODELS)
def test_numpy_and_torch_kernels_agree(model: str, precision: str) -> None:
    made = schedule(FAMILIES["ddp"], (1, 1, 1), 2, model=model, precision=precision)
    ours, theirs = (train_in_one_process(made, training(3), backend) for backend in (numpy_backend(), torch_backend()))
    limit = {"fp64": 1e-10, "fp32": 2e-5}[precision]
    assert distance(ours.weights, theirs.weights) <= limit
    assert np.allclose(ours.losses, theirs.losses, rtol=limit)
