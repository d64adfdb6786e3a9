"""Mugs as a model that is trained for real."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simfrontier.schedule import Schedule, Tensor
from simfrontier_real.losses import LossTargets
from simfrontier_real.models import RealModel
from simfrontier_real.rank_context import Kernel
from simfrontier_real.training_result import TrainingResult
from simfrontier_real.training_settings import TrainingSettings

MARK = "global/pixels"  # the input by which a schedule is known as one of Mugs


class Mugs(RealModel):
    """Its parts stand in modules of their own, which are imported where they are needed."""

    def is_of(self, schedule: Schedule) -> bool:
        return MARK in schedule.tensors

    def refuse(self, schedule: Schedule) -> None:
        from simfrontier_extras.mugs.real.limits import refuse

        refuse(schedule)

    def inputs(self) -> tuple[str, ...]:
        from simfrontier_extras.mugs.real.data import INPUTS

        return INPUTS

    def batch(self, schedule: Schedule, seed: int, step: int, micro: int) -> Mapping[str, Any]:
        from simfrontier_extras.mugs.real.data import crops

        return crops(schedule, seed, step, micro)

    def initial_state(self, state: Tensor, numbers: Any) -> Any:
        from simfrontier_extras.mugs.real.states import initial_state

        return initial_state(state, numbers)

    def kernels(self, targets: LossTargets, settings: object | None) -> dict[str, Kernel]:
        from simfrontier_extras.mugs.real.kernels import MugsKernels
        from simfrontier_extras.mugs.real.settings import settings_of

        return MugsKernels(targets, settings_of(settings)).kernels()

    def train_unsharded(
        self, schedule: Schedule, training: TrainingSettings, dtype: str, skipped: frozenset[int]
    ) -> TrainingResult:
        from simfrontier_extras.mugs.real.reference import train_mugs

        return train_mugs(schedule, training, dtype, skipped)


ADDS = (Mugs(),)
