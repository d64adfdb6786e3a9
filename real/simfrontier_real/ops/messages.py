"""From buffers to messages and back: several tensors travel as one flat message (and one of scales), unless their sizes
depend on their values."""

from __future__ import annotations

import math
from typing import Final

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.program import Collective, Exchange, Ref
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.codecs import Encoded
from simfrontier_real.ops.codecs.encoded import from_bytes, to_bytes
from simfrontier_real.ops.layout import (
    canonical,
    is_of_activations,
    local_shape,
    piece_shape,
    rearranged,
    side_by_side,
    taken_apart,
)
from simfrontier_real.ops.operands import put, shape_of, taken
from simfrontier_real.ops.programs import RankContext

DIVIDED: Final = ("reduce_scatter", "all_to_all")  # a member sends each of the others something else


def outgoing(context: RankContext, index: int, op: Collective) -> tuple[Array, ...]:
    """The messages of one call: all-gather and all-reduce [n], reduce-scatter and all-to-all [members, n]; data, then
    scales where the codec has them; or one for each tensor, where lengths depend on values."""
    src = context.program.reads[index]
    if index in context.buffers.bundled:
        return (context.buffers.bundled[index],)
    if context.schedule.tensors[src[0].name].codec is not None:
        held = [context.buffers[ref] for ref in src]
        columns = [list(parts) for parts in zip(*(each.parts for each in held), strict=True)]
        if op.codec.is_measured:
            columns = [[part] for part in columns[0]]
    else:
        columns = [[_rows(context, op, number, ref) for number, ref in enumerate(src)]]
    messages = tuple(context.backend.concat(parts, axis=1) for parts in columns)
    for message in messages:
        _refuse_wrong_pieces(context, op, message)
    if op.kind in ("all_gather", "all_reduce"):
        messages = tuple(context.backend.xp.reshape(message, (-1,)) for message in messages)
    if op.kind == "all_reduce" and len(src) == 1 and not context.schedule.tensors[op.dst[0].name].shares:
        return tuple(context.backend.xp.asarray(message, copy=True) for message in messages)  # it is reduced in place
    return messages


def incoming(context: RankContext, index: int, op: Collective, results: tuple[Array, ...]) -> None:
    """Put what a call brought into the buffers of its destinations."""
    src = context.program.reads[index]
    dst = context.program.writes[index][: len(op.dst)]
    xp = context.backend.xp
    rows = tuple(result if len(result.shape) == 2 else xp.reshape(result, (1, -1)) for result in results)
    stored = context.schedule.tensors[src[0].name].codec is not None
    if op.codec.is_measured and stored:
        for ref, row in zip(dst, rows, strict=True):
            context.buffers[ref] = Encoded(row, None)
        dst = ()
    start = [0] * len(rows)
    for a, b in zip(src, dst, strict=bool(dst)):
        widths = _widths(context, op, a)
        parts = []
        for number, width in enumerate(widths):
            parts.append(rows[number][:, start[number] : start[number] + width])
            start[number] += width
        if stored:
            context.buffers[b] = Encoded(parts[0], parts[1] if len(parts) > 1 else None)
        elif is_of_activations(op, context.schedule):
            put(context, op.piece, b, _block(context, op, a, b, parts[0]))
        else:
            alone = parts[0].shape[0] == 1 or parts[0].shape == rows[0].shape
            context.buffers[b] = xp.reshape(parts[0], (-1,)) if alone else parts[0]  # no copy: a permute follows
    for ref in context.program.writes[index][len(op.dst) :]:
        context.buffers[ref] = None  # a token


def sent(context: RankContext, index: int, op: Exchange) -> tuple[Array, ...]:
    """The message of this rank's end of an exchange, flat; none where it sends nothing."""
    reads = context.program.reads[index]
    coded = [part for ref in reads for part in _coded_bytes(context, ref)]
    parts = coded or [_line(context, ref) for ref in reads]
    return (context.backend.concat(parts),) if parts else ()


def _coded_bytes(context: RankContext, ref: Ref) -> list[Array]:
    """What is held coded of an instance, as bytes; nothing where it is not coded."""
    held = context.buffers[ref]
    return to_bytes(context.backend, held) if isinstance(held, Encoded) else []


def room(context: RankContext, index: int) -> Array | None:
    """A flat array for the message that an exchange brings to this rank."""
    due = _arriving(context, index)
    if not due:
        return None
    tensors, mesh = [context.schedule.tensors[ref.name] for ref in due], context.schedule.mesh
    if tensors[0].codec is not None:
        return context.backend.empty((sum(tensor.local_bytes(mesh) for tensor in tensors),), "uint8")
    total = sum(tensor.local_elements(mesh) for tensor in tensors)
    return context.backend.empty((total,), tensors[0].dtype)


def received(context: RankContext, index: int, message: Array | None) -> None:
    """Put what an exchange brought into the buffers of its destinations."""
    tensors, mesh, start = context.schedule.tensors, context.schedule.mesh, 0
    for ref in _arriving(context, index):
        tensor = tensors[ref.name]
        count = tensor.local_elements(mesh) if tensor.codec is None else tensor.local_bytes(mesh)
        if tensor.codec is not None and tensor.codec.is_measured:
            count = int(message.shape[0])  # type: ignore[union-attr]
        part = message[start : start + count]  # type: ignore[index]
        start += count
        if tensor.codec is not None:
            context.buffers[ref] = from_bytes(context.backend, part, tensor.codec, tensor.local_elements(mesh))
        elif tensor.role == "activation":
            context.buffers[ref] = context.backend.xp.reshape(part, local_shape(tensor, mesh))
        else:
            order = canonical(tensor, mesh)
            context.buffers[ref] = rearranged(
                context.backend, part, mesh, order, context.layouts.order_of(ref), context.at
            )
    for ref in context.program.writes[index]:
        if tensors[ref.name].role == "token":
            context.buffers[ref] = None


def _arriving(context: RankContext, index: int) -> list[Ref]:
    """What an exchange writes on this rank, tokens left out."""
    return [ref for ref in context.program.writes[index] if context.schedule.tensors[ref.name].role != "token"]


def _line(context: RankContext, ref: Ref) -> Array:
    """What is held of an instance as a flat line, digits in the order of the nesting."""
    tensor, line = context.schedule.tensors[ref.name], context.backend.xp.reshape(context.buffers[ref], (-1,))
    mesh = context.schedule.mesh
    return rearranged(context.backend, line, mesh, context.layouts.order_of(ref), canonical(tensor, mesh), context.at)


def _block(context: RankContext, op: Collective, src: Ref, dst: Ref, rows: Array) -> Array:
    """What a collective brought of an activation, in the shape of its block."""
    mesh, tensors = context.schedule.mesh, context.schedule.tensors
    if mesh.live(tensors[dst.name].stacked):  # contributions, to be merged
        return context.backend.xp.reshape(rows, (rows.shape[0], *local_shape(tensors[src.name], mesh)))
    if op.kind == "all_gather":
        local, shards = shape_of(context, op.piece, src), tensors[src.name].placement.shards
        return side_by_side(context.backend.xp, rows, local, mesh.live(op.axes), shards, mesh)
    if op.kind == "all_to_all":
        local = piece_shape(tensors[src.name], tensors[dst.name], mesh)
        return side_by_side(
            context.backend.xp, rows, local, mesh.live(op.axes), tensors[src.name].placement.shards, mesh
        )
    return context.backend.xp.reshape(rows, shape_of(context, op.piece, dst))


def _rows(context: RankContext, op: Collective, number: int, ref: Ref) -> Array:
    """What is held of the source of that number as [1, n], or as one row for each member that will get it."""
    if op.kind in DIVIDED and is_of_activations(op, context.schedule):
        mesh, shards = context.schedule.mesh, context.schedule.tensors[op.dst[number].name].placement.shards
        return taken_apart(context.backend.xp, taken(context, op.piece, ref), mesh.live(op.axes), shards, mesh)
    line = context.backend.xp.reshape(taken(context, op.piece, ref), (-1,))
    members = _members(context, op)
    if line.shape[0] % members:
        raise SimfrontierError(f"{op.kind} {op.name}: {ref.name} has {line.shape[0]} elements for {members} members")
    return context.backend.xp.reshape(line, (members, -1))


def _members(context: RankContext, op: Collective) -> int:
    """Rows of a message: one for each member that gets one of its own."""
    return context.schedule.mesh.size(op.axes) if op.kind in DIVIDED else 1


def _refuse_wrong_pieces(context: RankContext, op: Collective, message: Array) -> None:
    members = _members(context, op)
    if message.shape[0] != members:
        raise SimfrontierError(
            f"{op.kind} {op.name} of {op.src[0].name}: written in {message.shape[0]} pieces, "
            f"but sent to {members} members"
        )


def _widths(context: RankContext, op: Collective, ref: Ref) -> tuple[int, ...]:
    """Columns of one tensor in each of the call's messages, as its source holds it."""
    held = context.buffers[ref]
    if isinstance(held, Encoded):
        return tuple(int(part.shape[1]) for part in held.parts)
    members = _members(context, op)
    return (math.prod(shape_of(context, op.piece, ref) if op.piece else held.shape) // members,)
