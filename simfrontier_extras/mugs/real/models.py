"""Mugs as a model that is trained for real."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simfrontier.core.program import Schedule, Tensor
from simfrontier_extras.mugs.real.kernels import MugsKernels
from simfrontier_extras.mugs.real.reference import train_mugs
from simfrontier_extras.mugs.real.states import INPUTS, crops, initial_state, refuse, settings_of
from simfrontier_real.ops.operands import Kernel
from simfrontier_real.train.models import RealModel
from simfrontier_real.train.training_settings import TrainingResult, TrainingSettings, TrainingState

MARK = "global/pixels"  # the input by which a schedule is known as one of Mugs


class Mugs(RealModel):
    """Kernels, states and data of Mugs, and its training in one process."""

    def is_of(self, schedule: Schedule) -> bool:
        return MARK in schedule.tensors

    def refuse(self, schedule: Schedule) -> None:
        refuse(schedule)

    def inputs(self) -> tuple[str, ...]:
        return INPUTS

    def batch(self, schedule: Schedule, seed: int, step: int, micro: int) -> Mapping[str, Any]:
        return crops(schedule, seed, step, micro)

    def initial_state(self, state: Tensor, numbers: Any) -> Any:
        return initial_state(state, numbers)

    def kernels(self, training_state: TrainingState, settings: object | None) -> dict[str, Kernel]:
        return MugsKernels(training_state, settings_of(settings)).kernels()

    def train_unsharded(
        self, schedule: Schedule, training: TrainingSettings, dtype: str, skipped: frozenset[int]
    ) -> TrainingResult:
        return train_mugs(schedule, training, dtype, skipped)


ADDS = (Mugs(),)
