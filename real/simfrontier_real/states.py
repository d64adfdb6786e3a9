"""The states that training starts from, laid out over the ranks, and put together again when it ends."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simfrontier.errors import SimfrontierError
from simfrontier.schedule import Mesh, ModelKind, Ref, Schedule, Tensor, TensorRole, kind_of
from simfrontier_real.arrays import Array, Backend
from simfrontier_real.blocks import block_of, local_shape
from simfrontier_real.codecs import encode
from simfrontier_real.layout import Order, canonical, coordinates, rearranged, whole_line
from simfrontier_real.models import model_of
from simfrontier_real.rank_context import RankContext

LASTING: tuple[TensorRole, ...] = ("weight", "state", "constant")  # roles of what a model is after a step
Weights = dict[tuple[str, int], Any]  # (name, layer) → float64 numpy array of the weight's shape


def weights_of(schedule: Schedule) -> list[Tensor]:
    """The model's parameters, and the states that it keeps from step to step."""
    return [tensor for tensor in schedule.tensors.values() if tensor.role in LASTING]


def model_dtype(schedule: Schedule) -> str:
    """The type of the model's weights."""
    return next(tensor.dtype for tensor in schedule.tensors.values() if tensor.role == "weight")


def weight_of(tensor: Tensor) -> str:
    """The weight that a state is of."""
    assert tensor.weight is not None, f"{tensor.name} is of no weight"
    return tensor.weight


def master_of(schedule: Schedule, weight: str) -> Tensor:
    """The master of a weight."""
    return next(each for each in schedule.tensors.values() if each.role == "master" and each.weight == weight)


def instances(schedule: Schedule, tensor: Tensor) -> range:
    """The layers that a persistent tensor has instances of."""
    return range(int(schedule.meta.get("num_layers", 1)) if tensor.per_layer else 1)


def own_instances(context: RankContext) -> Iterator[tuple[Tensor, Ref]]:
    """The persistent instances that a rank holds: those that its program touches."""
    touched = context.touched
    for tensor in context.schedule.tensors.values():
        if tensor.persistent:
            for layer in instances(context.schedule, tensor):
                if Ref(tensor.name, layer) in touched:
                    yield tensor, Ref(tensor.name, layer)


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


def own_line(context: RankContext, backend: Backend, tensor: Tensor, block: Array) -> Array:
    """A rank's line of a tensor out of its block of it, in arrays of that backend."""
    mesh = context.schedule.mesh
    line = whole_line(backend, block, tensor, mesh)
    return rearranged(backend, line, mesh, mesh.live(tensor.nesting), canonical(tensor, mesh), context.at)


def shard(context: RankContext, values: Any, name: str) -> Array:
    """A rank's part of a whole activation (the inputs, the labels), cut as the tensor of that name is along the
    dimensions that the values have."""
    tensor = context.schedule.tensors[name]
    block = block_of(tensor.shape, tensor.placement, context.schedule.mesh, context.at, name)
    return values[block[: len(values.shape)]]


def final_states(context: RankContext) -> dict[tuple[str, int], Any]:
    """This rank's lines of all weights, states and masters that it holds, as numpy arrays."""
    return {
        (tensor.name, ref.layer): context.backend.numpy(context.buffers[ref])
        for tensor, ref in own_instances(context)
        if tensor.role in (*LASTING, "master")
    }


def assembled(
    schedule: Schedule,
    by_rank: Sequence[Mapping[tuple[str, int], Any]],
    may_differ: bool = False,
    roles: tuple[TensorRole, ...] = LASTING,
) -> Weights:
    """Whole weights and states (tensors of these `roles`) out of the lines of the ranks that hold them. Raises
    SimfrontierError where two ranks should hold the same and do not; where they `may_differ`, the first one's is
    taken."""
    import numpy as np

    mesh = schedule.mesh
    out: Weights = {}
    for tensor, layer in _every(schedule, roles):
        order = canonical(tensor, mesh)
        flat, cuts = _digits(tensor, mesh)
        blocks: dict[tuple[int, ...], dict[tuple[int, ...], Any]] = {}
        for (cut, digits), copies in by_place(schedule, tensor, layer, by_rank).items():
            for rank, line in copies.items():
                if not may_differ and not np.array_equal(next(iter(copies.values())), line):
                    raise SimfrontierError(
                        f"{tensor.name} of layer {layer}: rank {rank} holds other values than its copies"
                    )
            blocks.setdefault(cut, {})[digits] = next(iter(copies.values()))
        whole = np.full(tensor.shape, np.nan)
        for place_of_block, pieces in blocks.items():
            at = dict(zip(cuts, place_of_block, strict=True))
            block = block_of(tensor.shape, tensor.placement, mesh, at, tensor.name)
            whole[block] = _joined(pieces, flat, order, tensor, mesh)
        out[tensor.name, layer] = whole
    return out


def copy_difference(schedule: Schedule, by_rank: Sequence[Mapping[tuple[str, int], Any]]) -> float:
    """How far copies of one weight are from each other on ranks that should hold the same: the largest difference,
    relative to the tensor's largest value."""
    import numpy as np

    worst = 0.0
    for tensor, layer in _every(schedule):
        for copies in by_place(schedule, tensor, layer, by_rank).values():
            lines = np.stack(list(copies.values()))
            largest = float(np.abs(lines).max())
            worst = max(worst, float(np.ptp(lines, axis=0).max()) / largest if largest > 0 else 0.0)
    return worst


def _digits(tensor: Tensor, mesh: Mesh) -> tuple[Order, Order]:
    """The axes that a weight is spread over: flat, and cutting its dimensions."""
    flat = tuple(axis for axis in mesh.live(tensor.nesting) if axis in tensor.placement.flat)
    return flat, tuple(axis for axis, _ in tensor.placement.shards)


def by_place(
    schedule: Schedule, tensor: Tensor, layer: int, by_rank: Sequence[Mapping[tuple[str, int], Any]]
) -> dict[tuple[tuple[int, ...], tuple[int, ...]], dict[int, Any]]:
    """The lines of one weight by rank, by where they belong: (coordinates of the block, digits within it)."""
    flat, cuts = _digits(tensor, schedule.mesh)
    out: dict[tuple[tuple[int, ...], tuple[int, ...]], dict[int, Any]] = {}
    for rank, lines in enumerate(by_rank):
        if (tensor.name, layer) in lines:
            at = coordinates(schedule.mesh, rank)
            key = tuple(at[axis] for axis in cuts), tuple(at[axis] for axis in flat)
            out.setdefault(key, {})[rank] = lines[tensor.name, layer]
    return out


def _every(schedule: Schedule, roles: tuple[TensorRole, ...] = LASTING) -> Iterator[tuple[Tensor, int]]:
    for tensor in schedule.tensors.values():
        if tensor.role not in roles:
            continue
        for layer in instances(schedule, tensor):
            yield tensor, layer


def _joined(pieces: dict[tuple[int, ...], Any], flat: Order, free: Order, tensor: Tensor, mesh: Mesh) -> Any:
    """Pieces by their digits over `flat`, each with the digits of `free` inside, in the shape of the tensor's block."""
    import numpy as np

    nesting = mesh.live(tensor.nesting)
    cube = np.stack([pieces[digits] for digits in sorted(pieces)]).reshape([mesh[a] for a in (*flat, *free)] + [-1])
    now = (*flat, *free)
    cube = cube.transpose([now.index(axis) for axis in nesting] + [len(now)])
    shape = local_shape(tensor, mesh)
    return cube.reshape(-1)[: math.prod(shape)].reshape(shape).astype(np.float64)
