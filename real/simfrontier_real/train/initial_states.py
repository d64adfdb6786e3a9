"""The states that training starts from, laid out over the ranks."""

from __future__ import annotations

import zlib
from typing import Any

from simfrontier.core.program import ModelKind, Schedule, Tensor, kind_of
from simfrontier_real.ops.codecs import encode
from simfrontier_real.ops.layout import block_of
from simfrontier_real.ops.programs import RankContext
from simfrontier_real.train.models import model_of
from simfrontier_real.train.states import LASTING, Weights, instances, own_instances, own_line, weights_of


def initial_weights(schedule: Schedule, seed: int) -> Weights:
    """Normal numbers around 0, or around 1 for a norm's scales; the same for every plan of a model, whatever the mesh.

    No parameter is zero or equal to another, so that a mistake in any element shows; what follows a weight starts as
    that.
    """
    import numpy as np

    model, out, scales = model_of(schedule), Weights(), _scales(schedule)
    for tensor in weights_of(schedule):
        for layer in instances(schedule, tensor):
            numbers = np.random.default_rng([seed, zlib.crc32(_source(schedule, tensor).encode()), layer])
            state = None if model is None else model.initial_state(tensor, numbers)
            width = 0.1 if len(tensor.shape) == 1 else 0.5 / tensor.shape[1] ** 0.5
            middle = 1.0 if _source(schedule, tensor) in scales else 0.0
            values = numbers.normal(middle, width, tensor.shape) if state is None else state
            out[tensor.name, layer] = values
    return out


def _scales(schedule: Schedule) -> frozenset[str]:
    """The weights that norms multiply by: the first that each reads."""
    out: set[str] = set()
    for op in schedule.ops:
        kind = kind_of(op)
        if isinstance(kind, ModelKind) and "weight" in kind.needs:
            weights = [schedule.tensors[ref.name].weight for ref in op.reads]
            out.update([weight for weight in weights if weight is not None][:1])
    return frozenset(out)


def _source(schedule: Schedule, tensor: Tensor) -> str:
    """The weight or state that one starts equal to: what it follows, of a stream's constant that outside of streams,
    or itself."""
    if tensor.role == "constant" and tensor.local is not None and tensor.local in schedule.tensors:
        return tensor.local
    return tensor.follows or tensor.name


def place(context: RankContext, weights: Weights) -> None:
    """Put a rank's share of every state into its buffers: weights, their copies and masters, moments of zero."""
    backend, mesh = context.backend, context.schedule.mesh
    for tensor, ref in own_instances(context):
        if tensor.role == "optimizer":
            context.buffers[ref] = backend.zeros((2, tensor.local_elements(mesh)), tensor.dtype)
        elif tensor.role in (*LASTING, "copy", "master"):
            source = tensor.name if tensor.weight is None else tensor.weight
            context.buffers[ref] = placed_copy(context, tensor, weights[source, ref.layer])


def placed_copy(context: RankContext, tensor: Tensor, whole: Any) -> Any:
    """A rank's share of a weight, or of a copy or master of it, out of the whole weight as a float64 numpy array."""
    schedule, backend, mesh = context.schedule, context.backend, context.schedule.mesh
    source = tensor.name if tensor.weight is None else tensor.weight
    block = whole[block_of(tensor.shape, tensor.placement, mesh, context.at, tensor.name)]
    # states start from the weights as the model's type holds them, so that master and weight agree
    values = backend.cast(backend.array(block, schedule.tensors[source].dtype), tensor.dtype)
    local = own_line(context, backend, tensor, values)
    return local if tensor.codec is None else encode(backend, backend.xp.reshape(local, (1, -1)), tensor.codec)
