"""Data movement: local moves, the codecs' encode and decode ops, and conversion of buffers to messages and back."""

from __future__ import annotations

import math
from typing import Final

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.codecs import Codec
from simfrontier.core.program import Collective, Compute, Exchange, Placement, Ref
from simfrontier_real.ops.arrays import Array, Backend
from simfrontier_real.ops.codecs import Encoded, decode, encode
from simfrontier_real.ops.codecs.encoded import from_bytes, to_bytes
from simfrontier_real.ops.layout import (
    block_of,
    canonical,
    is_of_activations,
    local_shape,
    piece_shape,
    rearranged,
    side_by_side,
    taken_apart,
    whole_line,
)
from simfrontier_real.ops.losses import merged
from simfrontier_real.ops.operands import Kernel, Operands, put, shape_of, taken
from simfrontier_real.ops.programs import RankContext

LARGEST: Final = {"fp16": 65504.0, "bf16": (2.0 - 2.0**-7) * 2.0**127}  # finite numbers of narrower types than fp32


def move(operands: Operands) -> None:
    """Kernel of slice, permute and accumulate: write (or add) the same values in another digit order; of an activation,
    write a part."""
    context = operands.context
    for src, dst, added in _pairs(operands):
        if operands.op.piece is not None:  # the own block of a gather that turns
            put(context, operands.op.piece, dst, context.buffers[src])
            continue
        if context.schedule.tensors[src.name].role == "activation":
            context.buffers[dst] = _cut(context, context.buffers[src], src, dst)
            continue
        if _is_cut_further(context, src, dst):
            line = _own_part(context, src, dst)
        else:
            line = context.arranged(context.buffers[src], src, dst)
        _put(context, dst, context.backend.cast(line, context.schedule.tensors[dst.name].dtype), added)


def encoded(operands: Operands) -> None:
    """Kernel of encode: encode a buffer in one piece per receiving rank, or in a single piece if all ranks receive the
    whole buffer."""
    context, op = operands.context, operands.op
    for src, dst, _ in _pairs(operands):
        codec, cut = context.codec_of(dst), context.layouts.cuts.get(dst)
        if cut is not None:
            pieces = taken_apart(context.backend.xp, context.buffers[src], cut.axes, cut.shards, context.schedule.mesh)
        else:
            line = context.arranged(context.buffers[src], src, dst)
            pieces = context.backend.xp.reshape(line, (context.layouts.pieces_of(dst), -1))
        try:
            context.buffers[dst] = encode(context.backend, pieces, codec)
        except SimfrontierError as error:
            raise type(error)(f"{op.name} of {src.name}: {error}") from None


def decoded(operands: Operands) -> None:
    """Kernel of decode and decode_sum: decode the pieces of all ranks of the group and join them to one buffer, or sum
    them if they are contributions to a sum."""
    context, op, xp = operands.context, operands.op, operands.xp
    mesh = context.schedule.mesh
    for src, dst, added in _pairs(operands):
        held: Encoded = context.buffers[src]
        tensor, target = context.schedule.tensors[src.name], context.schedule.tensors[dst.name]
        length = tensor.local_elements(mesh) // int(held.data.shape[0])
        wide = "fp64" if target.dtype == "fp64" else "fp32"
        codec = context.codec_of(src)
        _refuse_other_bytes(op, src, held, codec, length)
        values = in_range(context.backend, decode(context.backend, held, codec, length, wide), codec, target.dtype)
        cut = context.layouts.cuts.get(src)
        if cut is not None:
            values = side_by_side(xp, values, cut.local, cut.axes, cut.shards, mesh)
        line = xp.sum(values, axis=0) if op.kind == "decode_sum" else xp.reshape(values, (-1,))
        line = context.backend.cast(context.arranged(line, src, dst), target.dtype)
        if target.role == "activation" and not target.placement.flat:
            line = xp.reshape(line, local_shape(target, mesh))
        _put(context, dst, line, added)


def in_range(backend: Backend, values: Array, codec: Codec, dtype: str) -> Array:
    """Return decoded numbers clipped to the range of their type: the numbers were finite when they were sent, and the
    coding error may take the largest ones beyond the range."""
    if codec.is_bounded or dtype not in LARGEST:
        return values
    return backend.xp.clip(values, -LARGEST[dtype], LARGEST[dtype])


def _refuse_other_bytes(op: Compute, ref: Ref, held: Encoded, codec: Codec, length: int) -> None:
    """Raise an error if the length of an encoded message does not match the codec that decodes it."""
    if held.scales is not None and codec.is_quantised:
        count = held.data[0].nbytes + held.scales[0].nbytes
        if count != codec.wire_bytes(length):
            raise SimfrontierError(
                f"{op.kind} {op.name}: a piece of {ref.name} has {count} bytes, "
                f"{length} elements in {codec} have {codec.wire_bytes(length)}"
            )


def _pairs(operands: Operands) -> list[tuple[Ref, Ref, bool]]:
    """Return (source, destination, whether the source is added) for each pair of buffers of a local op; tokens that the
    op also writes are left out."""
    reads, writes, added = operands.refs
    tensors = operands.context.schedule.tensors
    targets = [(ref, False) for ref in writes if tensors[ref.name].role != "token"] + [(ref, True) for ref in added]
    return [(src, dst, adds) for src, (dst, adds) in zip(reads, targets, strict=True)]


def _is_cut_further(context: RankContext, src: Ref, dst: Ref) -> bool:
    """Return whether the destination is sharded along more dimensions than the source."""
    before, after = (context.schedule.tensors[ref.name].placement.on(context.schedule.mesh) for ref in (src, dst))
    return before.shards != after.shards


def _own_part(context: RankContext, src: Ref, dst: Ref) -> Array:
    """Return this rank's flat part of a tensor of a weight whose destination is sharded further, and perhaps flat."""
    mesh, tensor, shape = context.schedule.mesh, context.schedule.tensors[dst.name], _shape(context, src)
    block = _cut(context, context.backend.xp.reshape(_unpadded(context, src), shape), src, dst)
    line = whole_line(context.backend, block, tensor, mesh)
    return rearranged(context.backend, line, mesh, mesh.live(tensor.nesting), canonical(tensor, mesh), context.at)


def _shape(context: RankContext, ref: Ref) -> tuple[int, ...]:
    return local_shape(context.schedule.tensors[ref.name], context.schedule.mesh)


def _unpadded(context: RankContext, ref: Ref) -> Array:
    """Return the elements of a block that is not flat over any axis as a flat array, without padding."""
    return context.backend.xp.reshape(context.buffers[ref], (-1,))[: math.prod(_shape(context, ref))]


def _cut(context: RankContext, values: Array, src: Ref, dst: Ref) -> Array:
    """Return this rank's part of a block whose destination is sharded further than its source."""
    tensors = context.schedule.tensors
    left = tensors[dst.name].placement.shards[len(tensors[src.name].placement.shards) :]
    shape = tuple(values.shape)
    return values[block_of(shape, Placement(left), context.schedule.mesh, context.at, src.name)]


def _put(context: RankContext, ref: Ref, value: Array, added: bool) -> None:
    if added:
        context.add(ref, value)
    else:
        context.put(ref, value)


def _copied(operands: Operands) -> None:
    """Kernel of offload and reload: copies of buffers. The host's memory and the device's are the same here."""
    for src, dst, _ in _pairs(operands):
        operands.context.buffers[dst] = operands.xp.asarray(operands.context.buffers[src], copy=True)


LOCAL_KERNELS: dict[str, Kernel] = {
    "slice": move,
    "offload": _copied,
    "reload": _copied,
    "permute": move,
    "accumulate": move,
    "encode": encoded,
    "decode": decoded,
    "decode_sum": decoded,
    "merge": merged,
}


DIVIDED: Final = ("reduce_scatter", "all_to_all")  # each rank sends a different row to every other rank


def outgoing(context: RankContext, index: int, op: Collective) -> tuple[Array, ...]:
    """Return the messages that a collective sends: [n] for all-gather and all-reduce, [members, n] for reduce-scatter
    and all-to-all; first the data, then the scales if the codec has them. If message lengths depend on the values,
    return one message per tensor."""
    src = context.program.reads[index]
    if op.turns:
        return (context.backend.concat(_turning(context, index, op)),)
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
    """Write the results of a collective into its destination buffers."""
    src = context.program.reads[index]
    dst = context.program.writes[index][: len(op.dst)]
    xp = context.backend.xp
    if op.turns:
        _turned(context, index, op, results[0])
        return
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


def _turning(context: RankContext, index: int, op: Collective) -> list[Array]:
    """Return what a rank sends in a step around a ring, as flat arrays: the blocks that arrived in the step before, or
    the sums of the gradients of the block that it has just attended to, with those that have arrived for this block."""
    xp, piece = context.backend.xp, op.piece
    assert piece is not None
    pairs = zip(context.program.reads[index], context.program.writes[index], strict=True)
    if op.kind == "all_gather":
        blocks = [taken(context, piece._replace(number=piece.number - 1), dst) for _, dst in pairs]
    else:
        blocks = [taken(context, piece, src) for src, _ in pairs]
        if piece.number > 1:
            arrived = (context.buffers[dst] for dst in context.program.writes[index])
            blocks = [block + xp.reshape(more, block.shape) for block, more in zip(blocks, arrived, strict=True)]
    return [xp.reshape(block, (-1,)) for block in blocks]


def _turned(context: RankContext, index: int, op: Collective, message: Array) -> None:
    """Write what arrived in a step around a ring; with the last step, sums have come to the rank of their block, which
    adds its own part."""
    xp, piece, begin = context.backend.xp, op.piece, 0
    assert piece is not None
    for src, dst in zip(context.program.reads[index], context.program.writes[index], strict=True):
        shape = shape_of(context, piece, dst)
        block = xp.reshape(message[begin : begin + math.prod(shape)], shape)
        begin += math.prod(shape)
        if op.kind == "all_gather":
            put(context, piece, dst, block)
        else:
            is_home = piece.number == piece.parts - 1
            own = taken(context, piece._replace(number=0), src) if is_home else None
            context.buffers[dst] = block if own is None else block + own


def sent(context: RankContext, index: int, op: Exchange) -> tuple[Array, ...]:
    """Return the flat message that this rank sends in an exchange; an empty result if it sends nothing."""
    reads = context.program.reads[index]
    coded = [part for ref in reads for part in _coded_bytes(context, ref)]
    parts = coded or [_line(context, ref) for ref in reads]
    return (context.backend.concat(parts),) if parts else ()


def _coded_bytes(context: RankContext, ref: Ref) -> list[Array]:
    """Return an encoded buffer as arrays of bytes; an empty list for a buffer that is not encoded."""
    held = context.buffers[ref]
    return to_bytes(context.backend, held) if isinstance(held, Encoded) else []


def room(context: RankContext, index: int) -> Array | None:
    """Return a flat receive buffer for the message of an exchange."""
    due = _arriving(context, index)
    if not due:
        return None
    tensors, mesh = [context.schedule.tensors[ref.name] for ref in due], context.schedule.mesh
    if tensors[0].codec is not None:
        return context.backend.empty((sum(tensor.local_bytes(mesh) for tensor in tensors),), "uint8")
    total = sum(tensor.local_elements(mesh) for tensor in tensors)
    return context.backend.empty((total,), tensors[0].dtype)


def received(context: RankContext, index: int, message: Array | None) -> None:
    """Write the received message of an exchange into the destination buffers."""
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
    """Return the tensor instances that an exchange writes on this rank, without tokens."""
    return [ref for ref in context.program.writes[index] if context.schedule.tensors[ref.name].role != "token"]


def _line(context: RankContext, ref: Ref) -> Array:
    """Return the values of a tensor instance as a flat array, with the digits in the order of the nesting."""
    tensor, line = context.schedule.tensors[ref.name], context.backend.xp.reshape(context.buffers[ref], (-1,))
    mesh = context.schedule.mesh
    return rearranged(context.backend, line, mesh, context.layouts.order_of(ref), canonical(tensor, mesh), context.at)


def _block(context: RankContext, op: Collective, src: Ref, dst: Ref, rows: Array) -> Array:
    """Return the result of a collective on an activation, in the shape of the destination's block."""
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
    """Return the values of source `number` as [1, n], or as one row per receiving rank."""
    if op.kind in DIVIDED and is_of_activations(op, context.schedule):
        mesh, shards = context.schedule.mesh, context.schedule.tensors[op.dst[number].name].placement.shards
        return taken_apart(context.backend.xp, taken(context, op.piece, ref), mesh.live(op.axes), shards, mesh)
    is_update = context.schedule.tensors[ref.name].role == "update" and is_of_activations(op, context.schedule)
    line = _unpadded(context, ref) if is_update else context.backend.xp.reshape(taken(context, op.piece, ref), (-1,))
    members = _members(context, op)
    if line.shape[0] % members:
        raise SimfrontierError(f"{op.kind} {op.name}: {ref.name} has {line.shape[0]} elements for {members} members")
    return context.backend.xp.reshape(line, (members, -1))


def _members(context: RankContext, op: Collective) -> int:
    """Return the number of rows of a message: one per rank of the group if each rank receives a row of its own, else
    1."""
    return context.schedule.mesh.size(op.axes) if op.kind in DIVIDED else 1


def _refuse_wrong_pieces(context: RankContext, op: Collective, message: Array) -> None:
    members = _members(context, op)
    if message.shape[0] != members:
        raise SimfrontierError(
            f"{op.kind} {op.name} of {op.src[0].name}: written in {message.shape[0]} pieces, "
            f"but sent to {members} members"
        )


def _widths(context: RankContext, op: Collective, ref: Ref) -> tuple[int, ...]:
    """Return the number of columns that one source tensor has in each message of the collective."""
    held = context.buffers[ref]
    if isinstance(held, Encoded):
        return tuple(int(part.shape[1]) for part in held.parts)
    members = _members(context, op)
    is_update = context.schedule.tensors[ref.name].role == "update" and is_of_activations(op, context.schedule)
    return (math.prod(shape_of(context, op.piece, ref) if op.piece or is_update else held.shape) // members,)
