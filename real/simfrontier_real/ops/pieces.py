"""Pieces of activations: the part of a rank's block that one piece of an op reads or writes."""

from __future__ import annotations

from simfrontier.core.program import Piece, Ref
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.layout import local_shape
from simfrontier_real.ops.programs import RankContext


def shape_of(context: RankContext, piece: Piece | None, ref: Ref) -> tuple[int, ...]:
    """The shape of what a piece has of an instance; without a piece, or where it is not cut, of all of it."""
    tensor = context.schedule.tensors[ref.name]
    shape = list(local_shape(tensor, context.schedule.mesh))
    if piece is not None and piece.label in tensor.dims:
        shape[tensor.dims.index(piece.label)] //= piece.parts
    return tuple(shape)


def taken(context: RankContext, piece: Piece | None, ref: Ref) -> Array:
    """What a piece reads of an instance, or all of it."""
    values = context.buffers[ref]
    if piece is None or piece.label not in context.schedule.tensors[ref.name].dims:
        return values
    cube, at = _in_parts(context, piece, ref, values)
    return context.backend.xp.reshape(cube[at], shape_of(context, piece, ref))


def put(context: RankContext, piece: Piece | None, ref: Ref, values: Array) -> None:
    """Write what a piece makes of an instance, or all of it; the first piece makes room for all."""
    tensor = context.schedule.tensors[ref.name]
    if piece is None or piece.label not in tensor.dims:
        context.buffers[ref] = values
        return
    if piece.number == 0:
        context.buffers[ref] = context.backend.empty(local_shape(tensor, context.schedule.mesh), tensor.dtype)
    cube, at = _in_parts(context, piece, ref, context.buffers[ref])
    cube[at] = context.backend.xp.reshape(values, cube[at].shape)


def _in_parts(context: RankContext, piece: Piece, ref: Ref, values: Array) -> tuple[Array, tuple[slice | int, ...]]:
    """(a view of an instance whose cut dimension is apart as [blocks, pieces, rest], where the piece lies in it)."""
    tensor, mesh = context.schedule.tensors[ref.name], context.schedule.mesh
    dim = tensor.dims.index(piece.label)
    is_block = any(axis in piece.axes and cut == dim for axis, cut in tensor.placement.shards)
    blocks = 1 if is_block else mesh.size(piece.axes)
    shape = local_shape(tensor, mesh)
    parts = (blocks, piece.parts, shape[dim] // (blocks * piece.parts))
    cube = context.backend.xp.reshape(values, (*shape[:dim], *parts, *shape[dim + 1 :]))
    return cube, (*(slice(None) for _ in range(dim + 1)), piece.number)
