"""Local moves of data: slice, permute, accumulate, and the codecs' encode, decode and decode-and-sum."""

from __future__ import annotations

from typing import Final

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.codecs import Codec
from simfrontier.core.program import Compute, Placement, Ref
from simfrontier_real.ops.arrays import Array, Backend, num_bytes
from simfrontier_real.ops.codecs import Encoded, decode, encode
from simfrontier_real.ops.layout import block_of, local_shape, side_by_side, taken_apart
from simfrontier_real.ops.losses import merged
from simfrontier_real.ops.operands import Kernel, Operands
from simfrontier_real.ops.programs import RankContext

LARGEST: Final = {"fp16": 65504.0, "bf16": (2.0 - 2.0**-7) * 2.0**127}  # finite numbers of narrower types than fp32


def move(operands: Operands) -> None:
    """slice, permute, accumulate: the same values with other digits (of activations: a part), written or added."""
    context = operands.context
    for src, dst, added in _pairs(operands):
        if context.schedule.tensors[src.name].role == "activation":
            context.buffers[dst] = _cut(context, context.buffers[src], src, dst)
            continue
        line = context.arranged(context.buffers[src], src, dst)
        _put(context, dst, context.backend.cast(line, context.schedule.tensors[dst.name].dtype), added)


def encoded(operands: Operands) -> None:
    """encode: in as many pieces as there are members that will get one (one, where everybody gets all)."""
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
    """decode, decode_sum: the members' pieces as one line, or their sum where they are contributions."""
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
    """Decoded numbers within the range of their type, at whose top they were: they were finite when they were sent."""
    if codec.is_bounded or dtype not in LARGEST:
        return values
    return backend.xp.clip(values, -LARGEST[dtype], LARGEST[dtype])


def _refuse_other_bytes(op: Compute, ref: Ref, held: Encoded, codec: Codec, length: int) -> None:
    """Refuse a message whose length is not that of the codec that reads it."""
    if held.scales is not None and codec.is_quantised:
        count = num_bytes(held.data[0]) + num_bytes(held.scales[0])
        if count != codec.wire_bytes(length):
            raise SimfrontierError(
                f"{op.kind} {op.name}: a piece of {ref.name} has {count} bytes, "
                f"{length} elements in {codec} have {codec.wire_bytes(length)}"
            )


def _pairs(operands: Operands) -> list[tuple[Ref, Ref, bool]]:
    """(source, destination, whether it is added to) of a local op; tokens that it also writes are left out."""
    reads, writes, added = operands.refs
    tensors = operands.context.schedule.tensors
    targets = [(ref, False) for ref in writes if tensors[ref.name].role != "token"] + [(ref, True) for ref in added]
    return [(src, dst, adds) for src, (dst, adds) in zip(reads, targets, strict=True)]


def _cut(context: RankContext, values: Array, src: Ref, dst: Ref) -> Array:
    """A rank's part of an activation that the destination cuts further than the source."""
    tensors = context.schedule.tensors
    left = tensors[dst.name].placement.shards[len(tensors[src.name].placement.shards) :]
    shape = tuple(values.shape)
    return values[block_of(shape, Placement(left), context.schedule.mesh, context.at, src.name)]


def _put(context: RankContext, ref: Ref, value: Array, added: bool) -> None:
    if added:
        context.add(ref, value)
    else:
        context.put(ref, value)


LOCAL_KERNELS: dict[str, Kernel] = {
    "slice": move,
    "permute": move,
    "accumulate": move,
    "encode": encoded,
    "decode": decoded,
    "decode_sum": decoded,
    "merge": merged,
}
