"""Layouts of a rank's buffers: which digits of the flat index a buffer contains and in which order; and reordering of
buffers.

A weight, gradient or optimizer state is stored as a flat buffer of the block that remains after sharding. The index has
one digit for each free axis (the axes of the nesting over which the tensor is not flat), the slowest first, and then a
digit for the elements that no axis divides. The digits are in the order of the nesting, with one exception: after a
gather and before a scatter, the digits of the collective come first. An activation is stored as an array in the shape
of its block; a stacked activation contains the blocks of all ranks of the group.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from simfrontier.base.errors import InputError
from simfrontier.core.codecs import Plain
from simfrontier.core.program import (
    Collective,
    Exchange,
    ExpandedProgram,
    Mesh,
    Placement,
    Ref,
    Schedule,
    Tensor,
    block_shape,
)
from simfrontier_real.ops.arrays import Array, Backend

Shards = tuple[tuple[str, int], ...]  # (axis, dimension), the outermost first


def local_shape(tensor: Tensor, mesh: Mesh) -> tuple[int, ...]:
    """Return the shape of the block of a tensor that remains on a rank after sharding."""
    return block_shape(tensor.shape, tensor.placement, mesh, tensor.name)


def block_of(
    shape: tuple[int, ...], placement: Placement, mesh: Mesh, at: Mapping[str, int], name: str
) -> tuple[slice, ...]:
    """Return the slices of the whole tensor that make up the block of the rank at coordinates `at`."""
    start, size = [0] * len(shape), list(shape)
    for axis, dim in placement.shards:
        size[dim] //= mesh[axis]
        start[dim] += at[axis] * size[dim]
    assert tuple(size) == block_shape(shape, placement, mesh, name)
    return tuple(slice(first, first + count) for first, count in zip(start, size, strict=True))


def piece_shape(src: Tensor, dst: Tensor, mesh: Mesh) -> tuple[int, ...]:
    """Return the shape of the message between two ranks of an all-to-all: the block of `src`, additionally cut as `dst`
    is."""
    moved = tuple(cut for cut in dst.placement.shards if cut not in src.placement.shards)
    shape = list(local_shape(src, mesh))
    for axis, dim in moved:
        shape[dim] //= mesh[axis]
    return tuple(shape)


def first_index(tensor: Tensor, label: str, mesh: Mesh, at: Mapping[str, int]) -> int:
    """Return the first index along a labelled dimension of the shard of the rank at coordinates `at`."""
    block = block_of(tensor.shape, tensor.placement, mesh, at, tensor.name)
    return int(block[tensor.dims.index(label)].start)


def side_by_side(
    xp: Any, pieces: Array, local: tuple[int, ...], axes: tuple[str, ...], shards: Shards, mesh: Mesh
) -> Array:
    """Join the blocks of all ranks of a group over `axes`, [members, n] with the first axis slowest, to one block;
    `shards` gives the dimension that each axis cuts."""
    cube = xp.reshape(pieces, (*(mesh[axis] for axis in axes), *local))
    order, shape = _interleaved(local, axes, shards, mesh)
    return xp.reshape(xp.permute_dims(cube, order), shape)


def taken_apart(xp: Any, whole: Array, axes: tuple[str, ...], shards: Shards, mesh: Mesh) -> Array:
    """Split a block into [members, n]: one piece for each rank of a group over `axes`; the inverse of
    `side_by_side`."""
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
    """Return (order, shape): the permutation of the dimensions [axes …, local …] that puts the axes cutting a dimension
    before it, outermost first; and the shape after axes and dimension are merged."""
    order: list[int] = []
    shape: list[int] = []
    for dim, size in enumerate(local):
        cut_axes = [axis for axis, cut in shards if cut == dim and axis in axes]
        order += [*(axes.index(axis) for axis in cut_axes), len(axes) + dim]
        shape.append(size * mesh.size(cut_axes))
    return tuple(order), tuple(shape)


def refuse_outer(name: str, axes: Iterable[str], shards: Shards) -> None:
    """Raise InputError if an axis of a gather or scatter cuts a dimension outside of another axis that remains: the
    pieces would not be contiguous."""
    moved = set(axes)
    for number, (axis, dim) in enumerate(shards):
        inner = [other for other, cut in shards[number + 1 :] if cut == dim and other not in moved]
        if axis in moved and inner:
            raise InputError(
                f"{name}: {axis} cuts dimension {dim} outside {inner[0]}; allowed: the innermost axes of a dimension"
            )


Order = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MessageSlot:
    """Position of a tensor instance in the flat message that its permute op writes: the collective that sends the
    message, and the instance's columns in the message [members, total]."""

    op: int
    members: int
    start: int
    width: int
    total: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Composition of a block from the pieces of an encoded activation: one piece of shape `local` for each rank of the
    groups over `axes`, cut along the dimensions of `shards`."""

    axes: tuple[str, ...]
    shards: tuple[tuple[str, int], ...]
    local: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layouts:
    """Layouts of tensor instances: the order of their digits, and the number of pieces in which they are encoded.

    `order` and `pieces` contain the layouts that collectives require; all other instances are in canonical order and in
    one piece. `bundles` contains the instances that are arranged for a reduce-scatter of several tensors at once,
    `cuts` the encoded activations that are cut along a dimension.
    """

    schedule: Schedule
    order: Mapping[Ref, Order]
    pieces: Mapping[Ref, int]
    bundles: Mapping[Ref, MessageSlot]
    cuts: Mapping[Ref, Cut]

    def order_of(self, ref: Ref) -> Order:
        """Return the digits of an instance's index, slowest first."""
        return self.order.get(ref) or canonical(self.schedule.tensors[ref.name], self.schedule.mesh)

    def pieces_of(self, ref: Ref) -> int:
        """Return the number of separately encoded pieces of an instance."""
        return self.pieces.get(ref, 1)


def layouts_of(schedule: Schedule, program: ExpandedProgram) -> Layouts:
    """Return the layouts that the communication of a program requires. Raises InputError if a weight, gradient or state
    is communicated along an axis that cuts its dimensions, if an exchange encodes its values, or if two collectives
    require different layouts."""
    mesh, tensors = schedule.mesh, schedule.tensors
    order: dict[Ref, Order] = {}
    pieces: dict[Ref, int] = {}
    cuts: dict[Ref, Cut] = {}
    for index, op in enumerate(program.ops):
        if isinstance(op, Exchange):
            _refuse_recoded(op, schedule)
        if not isinstance(op, Collective) or op.kind == "all_reduce":
            continue
        src, dst = program.reads[index], program.writes[index][: len(op.dst)]
        if _cuts_coded(op, schedule):
            cuts.update(_cuts(op, schedule, src, dst))
            continue
        _refuse_shards(op, schedule)
        if is_of_activations(op, schedule):
            continue
        for ref in dst if op.kind == "all_gather" else src:
            free = canonical(tensors[ref.name], mesh)
            first = mesh.live(op.axes)
            mine = first + tuple(axis for axis in free if axis not in first)
            if order.setdefault(ref, mine) != mine:
                raise InputError(f"collective {op.name}: {ref.name} is laid out for groups over {order[ref]} already")
            pieces[ref] = mesh.size(op.axes)
        if op.is_added_later:
            pieces.update(dict.fromkeys(dst, mesh.size(op.axes)))
    return Layouts(schedule, order, pieces, _bundles(schedule, program), cuts)


def _cuts_coded(op: Collective, schedule: Schedule) -> bool:
    """Return whether a collective gathers or scatters encoded values along their dimensions, which only activations are
    cut along."""
    smaller = op.src if op.kind == "all_gather" else op.dst
    tensors = [schedule.tensors[ref.name] for ref in smaller]
    return all(
        each.codec is not None and each.per_micro and any(axis in op.axes for axis, _ in each.placement.shards)
        for each in tensors
    )


def _cuts(op: Collective, schedule: Schedule, src: tuple[Ref, ...], dst: tuple[Ref, ...]) -> dict[Ref, Cut]:
    mesh, out = schedule.mesh, dict[Ref, Cut]()
    for a, b in zip(src, dst, strict=True):
        if op.kind == "all_to_all":
            out |= _cuts_of_exchanged(op, a, b, schedule)
            continue
        small, large = (a, b) if op.kind == "all_gather" else (b, a)
        tensor = schedule.tensors[small.name]
        refuse_outer(f"collective {op.name} of {small.name}", op.axes, tensor.placement.on(mesh).shards)
        out[large] = Cut(mesh.live(op.axes), tensor.placement.shards, local_shape(tensor, mesh))
    return out


def _cuts_of_exchanged(op: Collective, src: Ref, dst: Ref, schedule: Schedule) -> dict[Ref, Cut]:
    """Return the cuts of an all-to-all: its source is cut as the destination is, and its destination is joined along
    the cuts of the source."""
    mesh, (before, after) = schedule.mesh, (schedule.tensors[ref.name] for ref in (src, dst))
    for tensor in (before, after):
        refuse_outer(f"collective {op.name} of {tensor.name}", op.axes, tensor.placement.on(mesh).shards)
    axes, local = mesh.live(op.axes), piece_shape(before, after, mesh)
    return {src: Cut(axes, after.placement.shards, local), dst: Cut(axes, before.placement.shards, local)}


def _bundles(schedule: Schedule, program: ExpandedProgram) -> dict[Ref, MessageSlot]:
    """Return the message slots of the sources of each scatter of several tensors that a single permute op has written
    for it."""
    out: dict[Ref, MessageSlot] = {}
    writer: dict[Ref, int] = {}
    for index, op in enumerate(program.ops):
        src = program.reads[index]
        is_scatter = isinstance(op, Collective) and op.kind == "reduce_scatter" and not op.is_added_later
        if is_scatter and len(src) > 1 and _is_permute(program, {writer.get(ref, -1) for ref in src}):
            members = schedule.mesh.size(op.axes)  # type: ignore[union-attr]
            widths = [schedule.tensors[ref.name].local_elements(schedule.mesh) // members for ref in src]
            start = 0
            for ref, width in zip(src, widths, strict=True):
                out[ref] = MessageSlot(index, members, start, width, sum(widths))
                start += width
        writer.update(dict.fromkeys(program.writes[index], index))
    return out


def _is_permute(program: ExpandedProgram, writers: set[int]) -> bool:
    return len(writers) == 1 and min(writers) >= 0 and program.ops[min(writers)].kind == "permute"


def is_of_activations(op: Collective, schedule: Schedule) -> bool:
    """Return whether a collective communicates activations, which are sharded along their dimensions, or gathers the
    update of a matrix along them."""
    tensor = schedule.tensors[op.src[0].name]
    is_cut = any(axis in op.axes for axis, _ in tensor.placement.on(schedule.mesh).shards)
    return tensor.role == "activation" or (tensor.role == "update" and is_cut)


def _refuse_shards(op: Collective, schedule: Schedule) -> None:
    for name in {ref.name for ref in (*op.src, *op.dst)}:
        shards = schedule.tensors[name].placement.on(schedule.mesh).shards
        if is_of_activations(op, schedule):
            refuse_outer(f"collective {op.name} of {name}", op.axes, shards)
        elif any(axis in op.axes for axis, _ in shards):
            raise InputError(
                f"collective {op.name}: {name} is cut along a dimension by its axes; allowed: flat or whole tensors, "
                "and activations"
            )


def _refuse_recoded(op: Exchange, schedule: Schedule) -> None:
    for name in {ref.name for ref in (*op.reads, *op.writes)}:
        tensor = schedule.tensors[name]
        own = tensor.codec or Plain(tensor.dtype)
        if tensor.role != "token" and own != op.codec:
            raise InputError(f"exchange {op.name}: {name} is sent as {op.codec}; allowed: as it is stored, {own}")


def canonical(tensor: Tensor, mesh: Mesh) -> Order:
    """Return the free digits of a tensor in the order of its nesting."""
    return tuple(axis for axis in mesh.live(tensor.nesting) if axis not in tensor.placement.flat)


def rearranged(backend: Backend, line: Array, mesh: Mesh, src: Order, dst: Order, at: Mapping[str, int]) -> Array:
    """Reorder a flat buffer from the digits `src` to the digits `dst`; digits that `dst` lacks are fixed to the
    coordinates `at`.

    Returns a new contiguous flat buffer, or the input, flattened, where the digits are the same; the input may be a
    gathered piece of a larger message, [members, n].
    """
    if src == dst:
        return backend.xp.reshape(line, (-1,))
    xp = backend.xp
    cube = xp.reshape(line, (*(mesh[axis] for axis in src), -1))
    cube = cube[(*(at[axis] if axis not in dst else slice(None) for axis in src), Ellipsis)]
    left = [axis for axis in src if axis in dst]
    if tuple(left) != dst:
        cube = xp.permute_dims(cube, (*(left.index(axis) for axis in dst), len(left)))
    out = xp.reshape(cube, (-1,))
    return xp.asarray(out, copy=True)


def whole_line(backend: Backend, values: Array, tensor: Tensor, mesh: Mesh) -> Array:
    """Return a tensor's block as a flat buffer, padded with zeros to a multiple of the number of ranks in the
    nesting."""
    padding = -math.prod(values.shape) % mesh.size(tensor.nesting)
    line = backend.xp.reshape(values, (-1,))
    if not padding:
        return line
    zeros = backend.xp.zeros((padding,), dtype=line.dtype, device=backend.device)
    return backend.xp.concat([line, zeros])


def own_elements(tensor: Tensor, mesh: Mesh, at: Mapping[str, int]) -> npt.NDArray[np.int64]:
    """Return [n]: the row-major indices into the block of the elements in the flat buffer of the rank at coordinates
    `at`; indices beyond the size of the block are padding.

    The index of an element of the padded block is a mixed-radix number with one digit for each axis of the nesting; the
    digits of `flat` axes are fixed by the rank.
    """
    axes, count = mesh.live(tensor.nesting), math.prod(local_shape(tensor, mesh))
    sizes = [mesh[axis] for axis in axes]
    order = np.arange(count + -count % math.prod(sizes)).reshape(*sizes, -1)
    return order[tuple(at[axis] if axis in tensor.placement.flat else slice(None) for axis in axes)].reshape(-1)


def coordinates(mesh: Mesh, rank: int) -> dict[str, int]:
    """Return a rank's coordinate on each mesh axis."""
    out = {}
    for name, size in reversed(mesh.axes):
        rank, out[name] = divmod(rank, size)
    return out
