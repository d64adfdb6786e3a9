"""Blocks: which part of a tensor's dimensions a rank holds, and pieces of blocks joined or split."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from simfrontier.base.errors import InputError
from simfrontier.core.program import Mesh, Placement, Tensor, block_shape
from simfrontier_real.ops.arrays import Array

Shards = tuple[tuple[str, int], ...]  # (axis, dimension), the outermost first


def local_shape(tensor: Tensor, mesh: Mesh) -> tuple[int, ...]:
    """Shape of the block that the shards leave of a tensor."""
    return block_shape(tensor.shape, tensor.placement, mesh, tensor.name)


def block_of(
    shape: tuple[int, ...], placement: Placement, mesh: Mesh, at: Mapping[str, int], name: str
) -> tuple[slice, ...]:
    """Where the block of the rank at these coordinates lies in the whole tensor."""
    start, size = [0] * len(shape), list(shape)
    for axis, dim in placement.shards:
        size[dim] //= mesh[axis]
        start[dim] += at[axis] * size[dim]
    assert tuple(size) == block_shape(shape, placement, mesh, name)
    return tuple(slice(first, first + count) for first, count in zip(start, size, strict=True))


def piece_shape(src: Tensor, dst: Tensor, mesh: Mesh) -> tuple[int, ...]:
    """Shape of what a member of an all-to-all sends to each other one: its block of `src`, cut as `dst` is, too."""
    moved = tuple(cut for cut in dst.placement.shards if cut not in src.placement.shards)
    shape = list(local_shape(src, mesh))
    for axis, dim in moved:
        shape[dim] //= mesh[axis]
    return tuple(shape)


def first_index(tensor: Tensor, label: str, mesh: Mesh, at: Mapping[str, int]) -> int:
    """The first index along a labelled dimension that the rank at these coordinates holds."""
    block = block_of(tensor.shape, tensor.placement, mesh, at, tensor.name)
    return int(block[tensor.dims.index(label)].start)


def side_by_side(
    xp: Any, pieces: Array, local: tuple[int, ...], axes: tuple[str, ...], shards: Shards, mesh: Mesh
) -> Array:
    """The blocks of all members of a group over `axes`, [members, n] with the first axis slowest, as the block that
    they make together; `shards`: the dimension that each axis cuts."""
    cube = xp.reshape(pieces, (*(mesh[axis] for axis in axes), *local))
    order, shape = _interleaved(local, axes, shards, mesh)
    return xp.reshape(xp.permute_dims(cube, order), shape)


def taken_apart(xp: Any, whole: Array, axes: tuple[str, ...], shards: Shards, mesh: Mesh) -> Array:
    """A block as [members, n]: the piece of each member of a group over `axes`; the inverse of `side_by_side`."""
    sizes = {axis: mesh[axis] for axis in axes}
    cut = {dim: math.prod(sizes[a] for a, d in shards if d == dim and a in sizes) for dim in range(len(whole.shape))}
    local = tuple(size // cut[dim] for dim, size in enumerate(whole.shape))
    order, _ = _interleaved(local, axes, shards, mesh)
    split = [(*(mesh[axis] for axis in axes), *local)[place] for place in order]
    back = [order.index(place) for place in range(len(order))]
    cube = xp.permute_dims(xp.reshape(whole, tuple(split)), tuple(back))
    return xp.reshape(cube, (mesh.size(axes), -1))


def _interleaved(
    local: tuple[int, ...], axes: tuple[str, ...], shards: Shards, mesh: Mesh
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(order, shape): dimensions of [axes …, local …] so that the axes which cut a dimension precede it, the
    outermost first; and the shape when they are one with it."""
    order: list[int] = []
    shape: list[int] = []
    for dim, size in enumerate(local):
        cut_axes = [axis for axis, cut in shards if cut == dim and axis in axes]
        order += [*(axes.index(axis) for axis in cut_axes), len(axes) + dim]
        shape.append(size * mesh.size(cut_axes))
    return tuple(order), tuple(shape)


def refuse_outer(name: str, axes: Iterable[str], shards: Shards) -> None:
    """Raises InputError where an axis of a gather or scatter cuts a dimension outside another axis that stays: the
    pieces would not lie side by side."""
    moved = set(axes)
    for number, (axis, dim) in enumerate(shards):
        inner = [other for other, cut in shards[number + 1 :] if cut == dim and other not in moved]
        if axis in moved and inner:
            raise InputError(
                f"{name}: {axis} cuts dimension {dim} outside {inner[0]}; allowed: the innermost axes of a dimension"
            )
