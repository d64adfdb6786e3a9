"""Models to train for real and their data: a GPT, an MLP, and those that extras add."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from simfrontier.base.errors import InputError
from simfrontier.base.extras import added
from simfrontier.core.program import Schedule, Tensor
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.layout import block_of
from simfrontier_real.ops.operands import Kernel
from simfrontier_real.ops.programs import RankContext
from simfrontier_real.train.training_settings import TrainingResult, TrainingSettings, TrainingState

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
    def kernels(self, training_state: TrainingState, settings: object | None) -> dict[str, Kernel]:
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


NOISE = 0.1  # of the tokens that do not follow the rule


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch over all ranks: the model's inputs by name and the class of each position, as numpy arrays; a
    model without labels has none."""

    by_name: Mapping[str, Any]
    labels: Any = None

    @property
    def inputs(self) -> Any:
        """The only input."""
        (values,) = self.by_name.values()
        return values


def input_names(schedule: Schedule) -> tuple[str, ...]:
    """The tensors that a model's data goes into. Raises InputError for a model that is no GPT, MLP or extra's."""
    model = model_of(schedule)
    if model is not None:
        return model.inputs()
    for name in ("tokens", "inputs"):
        if name in schedule.tensors:
            return (name,)
    raise InputError(
        f"model {schedule.meta.get('model')!r}: no data for it; allowed: a GPT (tokens), an MLP (inputs) or a "
        "model of an extra"
    )


def batch(schedule: Schedule, seed: int, step: int, micro: int) -> Batch:
    """GPT: sequences whose next token follows from the last by a fixed rule, one in ten at random, and that next token
    as label. MLP: normal features, and the class of the largest of fixed random projections. A model of
    an extra: its own."""
    import numpy as np

    model = model_of(schedule)
    if model is not None:
        return Batch(model.batch(schedule, seed, step, micro))
    (name,) = input_names(schedule)
    tensor = schedule.tensors[name]
    numbers = np.random.default_rng([seed, 1, step, micro])
    if name == "tokens":
        num_samples, length = tensor.shape
        vocabulary = schedule.tensors["logits"].shape[-1]
        follow = np.random.default_rng([seed, 2]).permutation(vocabulary)
        tokens = np.empty((num_samples, length + 1), dtype=np.int64)
        tokens[:, 0] = numbers.integers(0, vocabulary, num_samples)
        for place in range(1, length + 1):
            at_random = numbers.random(num_samples) < NOISE
            tokens[:, place] = np.where(
                at_random, numbers.integers(0, vocabulary, num_samples), follow[tokens[:, place - 1]]
            )
        return Batch({name: tokens[:, :-1]}, tokens[:, 1:])
    inputs = numbers.normal(size=tensor.shape)
    classes = schedule.tensors["logits"].shape[-1]
    teacher = np.random.default_rng([seed, 2]).normal(size=(tensor.shape[-1], classes))
    return Batch({name: inputs}, (inputs @ teacher).argmax(axis=-1))


def shard(context: RankContext, values: Any, name: str) -> Array:
    """A rank's part of a whole activation (the inputs, the labels), cut as the tensor of that name is along the
    dimensions that the values have."""
    tensor = context.schedule.tensors[name]
    block = block_of(tensor.shape, tensor.placement, context.schedule.mesh, context.at, name)
    return values[block[: len(values.shape)]]
