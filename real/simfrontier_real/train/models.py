"""Models for real training, with their data and initial weights: a GPT, an MLP, and models that extras add."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from simfrontier.base.errors import InputError
from simfrontier.base.extras import added
from simfrontier.core.dtypes import num_moments
from simfrontier.core.program import ModelKind, Schedule, Tensor, kind_of
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.codecs import encode
from simfrontier_real.ops.layout import block_of
from simfrontier_real.ops.operands import Kernel
from simfrontier_real.ops.programs import RankContext
from simfrontier_real.train.states import LASTING, Weights, instances, own_instances, own_line
from simfrontier_real.train.training_settings import TrainingResult, TrainingSettings, TrainingState

OF_MODEL: Final = (
    *("grad_accum", "num_layers", "residual", "heads", "neighbours"),
    *("kv_heads", "gated", "norm", "positions", "embedding_norm", "dropout", "optimizer", "experts", "router"),
    *("qk_norm", "q_rank", "nope_features", "rope_features", "value_features", "mtp_layers", "expert_clamp"),
)
"""What a schedule's meta says of its model and optimizer that sizes do not."""


class RealModel(ABC):
    """Interface of a model that an extra adds in its module `real.models`."""

    @abstractmethod
    def is_of(self, schedule: Schedule) -> bool:
        """Return whether a schedule is for this model."""

    @abstractmethod
    def refuse(self, schedule: Schedule) -> None:
        """Raise InputError for a schedule by which this model cannot be trained."""

    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """Return the names of the tensors that contain the input data."""

    @abstractmethod
    def batch(self, schedule: Schedule, seed: int, step: int, micro: int) -> Mapping[str, Any]:
        """Return one micro-batch of all ranks: numpy arrays by the names of the input tensors."""

    @abstractmethod
    def initial_state(self, state: Tensor, numbers: Any) -> Any:
        """Return the initial value of a state, drawn from a numpy generator; None for a state that is initialised like
        weights."""

    @abstractmethod
    def kernels(self, training_state: TrainingState, settings: object | None) -> dict[str, Kernel]:
        """Return the model's own kernels by kind of op; `settings` as in `TrainingSettings.of_model`."""

    @abstractmethod
    def train_unsharded(
        self, schedule: Schedule, training: TrainingSettings, dtype: str, skipped: frozenset[int]
    ) -> TrainingResult:
        """Train the unsharded model, like `reference.train_unsharded`."""


def model_of(schedule: Schedule) -> RealModel | None:
    """Return the extra's model for a schedule; None for a GPT or an MLP."""
    return next(
        (model for model in added("real.models", RealModel) if model.is_of(schedule)),  # type: ignore[type-abstract]
        None,
    )


NOISE = 0.1  # fraction of tokens that do not follow the rule


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch of all ranks, as numpy arrays: the model's inputs by name, and the class of each position
    (`labels`, by depth of multi-token prediction; none for a model without labels)."""

    by_name: Mapping[str, Any]
    labels: tuple[Any, ...] = ()

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The inputs of a model without their names."""
        return tuple(self.by_name.values())


def input_names(schedule: Schedule) -> tuple[str, ...]:
    """Return the names of a model's input tensors. Raises InputError for a model that is neither a GPT, an MLP nor an
    extra's, or a GPT with windows."""
    model = model_of(schedule)
    if model is not None:
        return model.inputs()
    if "window" in schedule.meta:
        raise InputError("attention over a window is simulated, not computed; allowed: a model without model.window")
    for quantity in ("tokens", "inputs"):
        found = [
            (len(tensor.streams), name) for name, tensor in schedule.tensors.items() if tensor.quantity == quantity
        ]
        if found:
            return tuple(name for _, name in sorted(found))
    raise InputError(
        f"model {schedule.meta.get('model')!r}: no data for it; allowed: a GPT (tokens), an MLP (inputs) or a "
        "model of an extra"
    )


def batch(schedule: Schedule, seed: int, step: int, micro: int) -> Batch:
    """Return a micro-batch of all ranks. GPT: sequences whose next token follows from the previous one by a fixed rule
    (one in ten is random), labelled with the next token, and at each depth of multi-token
    prediction with the one after it. MLP: normally distributed features, labelled with the class of the largest of
    several fixed random projections. Model of an extra: its own data."""
    model = model_of(schedule)
    if model is not None:
        return Batch(model.batch(schedule, seed, step, micro))
    name, *further = input_names(schedule)
    tensor = schedule.tensors[name]
    numbers = np.random.default_rng([seed, 1, step, micro])
    if name == "tokens":
        num_samples, length = tensor.shape
        vocabulary = schedule.tensors["logits"].shape[-1]
        follow = np.random.default_rng([seed, 2]).permutation(vocabulary)
        tokens = np.empty((num_samples, length + 1 + len(further)), dtype=np.int64)
        tokens[:, 0] = numbers.integers(0, vocabulary, num_samples)
        for place in range(1, tokens.shape[1]):
            at_random = numbers.random(num_samples) < NOISE
            tokens[:, place] = np.where(
                at_random, numbers.integers(0, vocabulary, num_samples), follow[tokens[:, place - 1]]
            )
        shifted = [tokens[:, depth : depth + length] for depth in range(len(further) + 2)]
        return Batch(dict(zip((name, *further), shifted, strict=False)), tuple(shifted[1:]))
    inputs = numbers.normal(size=tensor.shape)
    classes = schedule.tensors["logits"].shape[-1]
    teacher = np.random.default_rng([seed, 2]).normal(size=(tensor.shape[-1], classes))
    return Batch({name: inputs}, ((inputs @ teacher).argmax(axis=-1),))


def shard(context: RankContext, values: Any, name: str) -> Array:
    """Return a rank's shard of a whole activation (inputs, labels), cut like the tensor `name` along the dimensions of
    the values."""
    tensor = context.schedule.tensors[name]
    block = block_of(tensor.shape, tensor.placement, context.schedule.mesh, context.at, name)
    return values[block[: len(values.shape)]]


def initial_weights(schedule: Schedule, seed: int) -> Weights:
    """Return initial weights: normally distributed around 0, or around 1 for the scales of norms; the same for every
    plan and mesh of a model.

    No parameter is zero or equal to another, so that an error in any element is visible; copies and masters start with
    the values of their weight.
    """
    model, out, scales = model_of(schedule), Weights(), _scales(schedule)
    for tensor, layer in instances(schedule, LASTING):
        numbers = np.random.default_rng([seed, zlib.crc32(_source(schedule, tensor).encode()), layer])
        state = None if model is None else model.initial_state(tensor, numbers)
        width = 0.1 if len(tensor.shape) == 1 else 0.5 / tensor.shape[1] ** 0.5
        middle = 1.0 if _source(schedule, tensor) in scales else 0.0
        values = numbers.normal(middle, width, tensor.shape) if state is None else state
        out[tensor.name, layer] = values
    return out


def _scales(schedule: Schedule) -> frozenset[str]:
    """Return the scale weights of norms: the first weight that each norm reads."""
    out: set[str] = set()
    for op in schedule.ops:
        kind = kind_of(op)
        if isinstance(kind, ModelKind) and "weight" in kind.needs:
            weights = [schedule.tensors[ref.name].weight for ref in op.reads]
            out.update([weight for weight in weights if weight is not None][:1])
    return frozenset(out)


def _source(schedule: Schedule, tensor: Tensor) -> str:
    """Return the tensor whose initial value a tensor shares: the weight of a copy or master, the tensor without stream
    for a constant of a stream, or the tensor itself."""
    if tensor.role == "constant" and tensor.local is not None and tensor.local in schedule.tensors:
        return tensor.local
    return tensor.follows or tensor.name


def place(context: RankContext, weights: Weights) -> None:
    """Write a rank's shards of all initial states into its buffers: weights, their copies and masters, and zero
    moments."""
    backend, mesh = context.backend, context.schedule.mesh
    for tensor, ref in own_instances(context):
        if tensor.role == "optimizer":
            context.buffers[ref] = backend.zeros((num_moments(tensor.dtype), tensor.local_elements(mesh)), tensor.dtype)
        elif tensor.role in (*LASTING, "copy", "master"):
            source = tensor.name if tensor.weight is None else tensor.weight
            context.buffers[ref] = placed_copy(context, tensor, weights[source, ref.layer])


def placed_copy(context: RankContext, tensor: Tensor, whole: Any) -> Any:
    """Return a rank's shard of a weight, or of its copy or master, from the whole weight, a float64 numpy array."""
    schedule, backend, mesh = context.schedule, context.backend, context.schedule.mesh
    source = tensor.name if tensor.weight is None else tensor.weight
    block = whole[block_of(tensor.shape, tensor.placement, mesh, context.at, tensor.name)]
    # states start from the weights as the model's type holds them, so that master and weight agree
    values = backend.cast(backend.array(block, schedule.tensors[source].dtype), tensor.dtype)
    local = own_line(context, backend, tensor, values)
    return local if tensor.codec is None else encode(backend, backend.xp.reshape(local, (1, -1)), tensor.codec)
