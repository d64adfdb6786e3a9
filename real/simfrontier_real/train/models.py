"""Models that extras train for real: what of training they do in a way of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

from simfrontier.base.extras import added
from simfrontier.core.program import Schedule, Tensor
from simfrontier_real.ops.losses import LossTargets
from simfrontier_real.ops.programs import Kernel
from simfrontier_real.train.training_settings import TrainingResult, TrainingSettings

OF_MODEL: Final = (
    *("grad_accum", "num_layers", "residual", "heads", "neighbours"),
    *("kv_heads", "gated", "norm", "positions", "embedding_norm", "dropout", "optimizer"),
)
"""What a schedule's meta says of its model and optimizer that sizes do not."""


class RealModel(ABC):
    """A model of an extra, by its module `real.models`."""

    @abstractmethod
    def is_of(self, schedule: Schedule) -> bool:
        """Whether a schedule is of this model."""

    @abstractmethod
    def refuse(self, schedule: Schedule) -> None:
        """Raise InputError for a schedule that cannot be trained."""

    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """The tensors that its data goes into."""

    @abstractmethod
    def batch(self, schedule: Schedule, seed: int, step: int, micro: int) -> Mapping[str, Any]:
        """One micro-batch over all ranks: numpy arrays by the names of the inputs."""

    @abstractmethod
    def initial_state(self, state: Tensor, numbers: Any) -> Any:
        """What a state starts from, drawn from a generator of numpy; None of what is drawn as weights are."""

    @abstractmethod
    def kernels(self, targets: LossTargets, settings: object | None) -> dict[str, Kernel]:
        """Kernels of its own, by kind of op; `settings` as in `TrainingSettings.of_model`."""

    @abstractmethod
    def train_unsharded(
        self, schedule: Schedule, training: TrainingSettings, dtype: str, skipped: frozenset[int]
    ) -> TrainingResult:
        """As `reference.train_unsharded`."""


def model_of(schedule: Schedule) -> RealModel | None:
    """The extra's model that a schedule is of; None of a GPT or an MLP."""
    return next(
        (model for model in added("real.models", RealModel) if model.is_of(schedule)),  # type: ignore[type-abstract]
        None,
    )
