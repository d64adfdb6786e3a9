"""Models that extras train for real are found by their schedules, and take the place of a GPT's parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.program import Schedule, Tensor
from simfrontier_real.ops.operands import Kernel
from simfrontier_real.train import models
from simfrontier_real.train.models import RealModel, batch, initial_weights, input_names, model_of
from simfrontier_real.train.reference import train_unsharded
from simfrontier_real.train.train import train_in_one_process
from simfrontier_real.train.training_settings import TrainingResult, TrainingSettings, TrainingState
from tests.real.schedules import EXACT, schedule, training


class Own(RealModel):
    """Of every schedule; its head starts from zero."""

    def is_of(self, schedule: Schedule) -> bool:
        return True

    def refuse(self, schedule: Schedule) -> None:
        raise InputError("not this one")

    def inputs(self) -> tuple[str, ...]:
        return ("tokens", "flags")

    def batch(self, schedule: Schedule, seed: int, step: int, micro: int) -> Mapping[str, Any]:
        return {"flags": (seed, step, micro)}

    def initial_state(self, state: Tensor, numbers: Any) -> Any:
        return np.zeros(state.shape) if state.quantity == "head.weight" else None

    def kernels(self, training_state: TrainingState, settings: object | None) -> dict[str, Kernel]:
        return {}

    def train_unsharded(
        self, schedule: Schedule, training: TrainingSettings, dtype: str, skipped: frozenset[int]
    ) -> TrainingResult:
        return TrainingResult((1.5,), {})


def made() -> Schedule:
    return schedule(EXACT["ddp"], (1, 1, 2))


def test_a_gpt_is_of_no_extra() -> None:
    assert model_of(made()) is None


def test_data_states_and_reference_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "added", lambda module, kind: (Own(),))
    assert input_names(made()) == ("tokens", "flags")
    assert batch(made(), 3, 1, 2).by_name == {"flags": (3, 1, 2)}
    start = initial_weights(made(), 0)
    assert not start["head.weight", 0].any()
    assert train_unsharded(made(), training(1)).losses == (1.5,)


def test_what_it_refuses_is_not_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "added", lambda module, kind: (Own(),))
    with pytest.raises(InputError, match=r"^not this one$"):
        train_in_one_process(made(), training(1))
