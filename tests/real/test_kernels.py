"""The model's kernels: gradients of whole steps against finite differences, and numpy against torch."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import array_api_compat.numpy
import numpy as np
import pytest

from simfrontier.core.program import Schedule
from simfrontier.core.workload import Checkpointing
from simfrontier_real.ops.arrays import numpy_backend, torch_backend
from simfrontier_real.ops.kernels import MODEL_KERNELS
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


def test_experts_that_clamp_bend_as_by_hand() -> None:
    """GPT-OSS: gate · sigmoid(1.702 gate) · (up + 1); gate above 7, and up beyond -7 and 7, count as these."""
    gate, up = np.array([-9.0, 0.5, 6.9, 8.0, 1.0, -2.0]), np.array([0.3, -0.4, 2.0, 3.0, 9.0, -8.0])
    most, between = np.minimum(gate, 7), np.clip(up, -7, 7)
    share = 1 / (1 + np.exp(-1.702 * most))
    both, above = np.stack([gate, up], axis=-1).reshape(1, 12), np.full((1, 6), 2.0)
    written: list[Any] = []

    def bend(*values: Any, backward: bool) -> Any:
        MODEL_KERNELS["clamped_swiglu"](
            SimpleNamespace(
                xp=array_api_compat.numpy,
                wide=lambda read: read,
                activations=lambda: [("", value) for value in values],
                is_backward=backward,
                put=written.append,
            )  # type: ignore[arg-type]
        )
        return written.pop()

    assert np.allclose(bend(both, backward=False), most * share * (between + 1))
    gradient = bend(above, both, backward=True).reshape(6, 2)
    assert np.allclose(gradient[:, 0], 2 * (between + 1) * share * (1 + 1.702 * most * (1 - share)) * (gate < 7))
    assert np.allclose(gradient[:, 1], 2 * most * share * (abs(up) < 7))
