"""The states of a model (weights, copies, masters, moments): which of them a rank holds, their layout over the ranks,
and reassembly of whole states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.program import Ref, Schedule, Tensor, TensorRole
from simfrontier_real.ops.arrays import Array, Backend
from simfrontier_real.ops.layout import block_of, canonical, coordinates, own_elements, rearranged, whole_line
from simfrontier_real.ops.programs import RankContext

LASTING: tuple[TensorRole, ...] = ("weight", "state", "constant")  # roles of the tensors that persist after a step
Weights = dict[tuple[str, int], Any]  # (name, layer) → float64 numpy array of the weight's shape


def weights_of(schedule: Schedule) -> list[Tensor]:
    """Return the model's parameters and the states that it keeps between steps."""
    return [tensor for tensor in schedule.tensors.values() if tensor.role in LASTING]


def model_dtype(schedule: Schedule) -> str:
    """Return the number type of the model's weights."""
    return next(tensor.dtype for tensor in schedule.tensors.values() if tensor.role == "weight")


def weight_of(tensor: Tensor) -> str:
    """Return the weight to which a state belongs."""
    assert tensor.weight is not None, f"{tensor.name} is of no weight"
    return tensor.weight


def master_of(schedule: Schedule, weight: str) -> Tensor:
    """Return the master weight of a weight."""
    return next(each for each in schedule.tensors.values() if each.role == "master" and each.weight == weight)


def instances(schedule: Schedule, roles: tuple[TensorRole, ...] = ()) -> Iterator[tuple[Tensor, int]]:
    """Yield the persistent tensors with one of these `roles` (empty: all), each by layer for which the programs use
    it."""
    wanted = {n: t for n, t in schedule.tensors.items() if t.persistent and (t.role in roles or not roles)}
    of_block = [
        {(ref.name, ref.layer) for op in ops for ref in (*op.reads, *op.writes, *op.accumulates) if ref.name in wanted}
        for ops in schedule.blocks
    ]
    used: dict[str, set[int]] = {name: set() for name in wanted}
    for block, layer in {(call.block, call.layer) for role in schedule.roles for call in role.calls}:
        for name, ahead in of_block[block]:
            used[name].add(layer + ahead if wanted[name].per_layer else 0)
    for name, layers in used.items():
        for layer in sorted(layers):
            yield wanted[name], layer


def own_instances(context: RankContext) -> Iterator[tuple[Tensor, Ref]]:
    """Yield the persistent tensors, by layer, that a rank holds: those that its program uses."""
    for tensor, layer in instances(context.schedule):
        if Ref(tensor.name, layer) in context.touched:
            yield tensor, Ref(tensor.name, layer)


def own_line(context: RankContext, backend: Backend, tensor: Tensor, block: Array) -> Array:
    """Return a rank's flat buffer of a tensor from the rank's block, as arrays of `backend`."""
    mesh = context.schedule.mesh
    line = whole_line(backend, block, tensor, mesh)
    return rearranged(backend, line, mesh, mesh.live(tensor.nesting), canonical(tensor, mesh), context.at)


def final_states(context: RankContext) -> dict[tuple[str, int], Any]:
    """Return this rank's flat buffers of all weights, states and masters, as numpy arrays."""
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
    """Return whole weights and states (tensors with one of these `roles`), assembled from the flat buffers of all
    ranks. Raises SimfrontierError if copies on two ranks differ; with `may_differ`, the first rank's copy is used
    instead."""
    mesh = schedule.mesh
    out: Weights = {}
    for tensor, layer in instances(schedule, roles):
        whole = out[tensor.name, layer] = np.full(tensor.shape, np.nan)
        for copies in by_place(schedule, tensor, layer, by_rank).values():
            first, line = next(iter(copies.items()))
            for rank, other in copies.items():
                if not may_differ and not np.array_equal(line, other):
                    raise SimfrontierError(
                        f"{tensor.name} of layer {layer}: rank {rank} holds other values than its copies"
                    )
            at = coordinates(mesh, first)
            place = block_of(tensor.shape, tensor.placement, mesh, at, tensor.name)
            block, own = whole[place].reshape(-1), own_elements(tensor, mesh, at)
            block[own[own < block.size]] = line.reshape(-1)[own < block.size]
            whole[place] = block.reshape(whole[place].shape)
    return out


def copy_difference(schedule: Schedule, by_rank: Sequence[Mapping[tuple[str, int], Any]]) -> float:
    """Return the largest difference between copies of one weight on different ranks, relative to the tensor's largest
    value."""
    worst = 0.0
    for tensor, layer in instances(schedule, LASTING):
        for copies in by_place(schedule, tensor, layer, by_rank).values():
            lines = np.stack(list(copies.values()))
            largest = float(np.abs(lines).max())
            worst = max(worst, float(np.ptp(lines, axis=0).max()) / largest if largest > 0 else 0.0)
    return worst


def by_place(
    schedule: Schedule, tensor: Tensor, layer: int, by_rank: Sequence[Mapping[tuple[str, int], Any]]
) -> dict[tuple[tuple[int, ...], tuple[int, ...]], dict[int, Any]]:
    """Return the flat buffers of one weight by rank, grouped by their part of the weight: (coordinates of the block,
    digits within the block)."""
    flat = tuple(axis for axis in schedule.mesh.live(tensor.nesting) if axis in tensor.placement.flat)
    cuts = tuple(axis for axis, _ in tensor.placement.shards)
    out: dict[tuple[tuple[int, ...], tuple[int, ...]], dict[int, Any]] = {}
    for rank, lines in enumerate(by_rank):
        if (tensor.name, layer) in lines:
            at = coordinates(schedule.mesh, rank)
            key = tuple(at[axis] for axis in cuts), tuple(at[axis] for axis in flat)
            out.setdefault(key, {})[rank] = lines[tensor.name, layer]
    return out
