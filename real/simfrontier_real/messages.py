"""From buffers to messages and back: several tensors travel as one flat message (and one of scales), unless their sizes
depend on their values."""

from __future__ import annotations

import math

from simfrontier.codecs import Codec
from simfrontier.errors import SimfrontierError
from simfrontier.schedule import Collective, Exchange, Ref
from simfrontier_real.arrays import Array
from simfrontier_real.blocks import local_shape, side_by_side, taken_apart
from simfrontier_real.codecs import Encoded
from simfrontier_real.layout import canonical, is_of_activations, rearranged
from simfrontier_real.rank_context import RankContext


def outgoing(site: RankContext, index: int, op: Collective) -> tuple[Array, ...]:
    """The messages of one call: all-gather and all-reduce [n], reduce-scatter and all-to-all [members, n]; data, then
    scales where the codec has them; or one for each tensor, where only the values say how long it is."""
    src = site.program.reads[index]
    if index in site.buffers.bundled:
        return (site.buffers.bundled[index],)
    if site.schedule.tensors[src[0].name].codec is not None:
        held = [site.buffers[ref] for ref in src]
        columns = [list(parts) for parts in zip(*(each.parts for each in held), strict=True)]
        if op.codec.is_measured:
            columns = [[part] for part in columns[0]]
    else:
        columns = [[_rows(site, op, number, ref) for number, ref in enumerate(src)]]
    messages = tuple(site.backend.concat(parts, axis=1) for parts in columns)
    for message in messages:
        _refuse_wrong_pieces(site, op, message)
    if op.kind in ("all_gather", "all_reduce"):
        messages = tuple(site.backend.xp.reshape(message, (-1,)) for message in messages)
    if op.kind == "all_reduce" and len(src) == 1 and not site.schedule.tensors[op.dst[0].name].shares:
        return tuple(site.backend.xp.asarray(message, copy=True) for message in messages)  # it is reduced in place
    return messages


def incoming(site: RankContext, index: int, op: Collective, results: tuple[Array, ...]) -> None:
    """Put what a call brought into the buffers of its destinations."""
    src = site.program.reads[index]
    dst = site.program.writes[index][: len(op.dst)]
    xp = site.backend.xp
    rows = tuple(result if len(result.shape) == 2 else xp.reshape(result, (1, -1)) for result in results)
    stored = site.schedule.tensors[src[0].name].codec is not None
    if op.codec.is_measured and stored:
        for ref, row in zip(dst, rows, strict=True):
            site.buffers[ref] = Encoded(row, None)
        dst = ()
    start = [0] * len(rows)
    for a, b in zip(src, dst, strict=bool(dst)):
        widths = _widths(site, op, a)
        parts = []
        for number, width in enumerate(widths):
            parts.append(rows[number][:, start[number] : start[number] + width])
            start[number] += width
        if stored:
            site.buffers[b] = Encoded(parts[0], parts[1] if len(parts) > 1 else None)
        elif is_of_activations(op, site.schedule):
            site.buffers[b] = _block(site, op, a, b, parts[0])
        else:
            alone = parts[0].shape[0] == 1 or parts[0].shape == rows[0].shape
            site.buffers[b] = xp.reshape(parts[0], (-1,)) if alone else parts[0]  # no copy: a permute follows
    for ref in site.program.writes[index][len(op.dst) :]:
        site.buffers[ref] = None  # a token


def sent(site: RankContext, index: int, op: Exchange) -> tuple[Array, ...]:
    """The message of this rank's end of an exchange, flat; none where it sends nothing."""
    reads = site.program.reads[index]
    coded = [part for ref in reads for part in _coded_bytes(site, ref)]
    parts = coded or [_line(site, ref) for ref in reads]
    return (site.backend.concat(parts),) if parts else ()


def _coded_bytes(site: RankContext, ref: Ref) -> list[Array]:
    """What is held coded of an instance, as bytes; nothing where it is not coded."""
    held = site.buffers[ref]
    if not isinstance(held, Encoded):
        return []
    return [site.backend.as_bytes(part) for part in held.parts]


def room(site: RankContext, index: int) -> Array | None:
    """A flat array for the message that an exchange brings to this rank."""
    due = _arriving(site, index)
    if not due:
        return None
    tensors, mesh = [site.schedule.tensors[ref.name] for ref in due], site.schedule.mesh
    if tensors[0].codec is not None:
        return site.backend.empty((sum(tensor.local_bytes(mesh) for tensor in tensors),), "uint8")
    total = sum(tensor.local_elements(mesh) for tensor in tensors)
    return site.backend.empty((total,), tensors[0].dtype)


def received(site: RankContext, index: int, message: Array | None) -> None:
    """Put what an exchange brought into the buffers of its destinations."""
    tensors, mesh, start = site.schedule.tensors, site.schedule.mesh, 0
    for ref in _arriving(site, index):
        tensor = tensors[ref.name]
        count = tensor.local_elements(mesh) if tensor.codec is None else tensor.local_bytes(mesh)
        if tensor.codec is not None and tensor.codec.is_measured:
            count = int(message.shape[0])  # type: ignore[union-attr]
        part = message[start : start + count]  # type: ignore[index]
        start += count
        if tensor.codec is not None:
            site.buffers[ref] = _as_encoded(site, part, tensor.codec, tensor.local_elements(mesh))
        elif tensor.role == "activation":
            site.buffers[ref] = site.backend.xp.reshape(part, local_shape(tensor, mesh))
        else:
            order = canonical(tensor, mesh)
            site.buffers[ref] = rearranged(site.backend, part, mesh, order, site.layouts.order_of(ref), site.at)
    for ref in site.program.writes[index]:
        if tensors[ref.name].role == "token":
            site.buffers[ref] = None


def _as_encoded(site: RankContext, part: Array, codec: Codec, elements: int) -> Encoded:
    """One piece out of the bytes that it travelled as."""
    xp, backend = site.backend.xp, site.backend
    if not codec.is_opaque:
        return Encoded(xp.reshape(backend.from_bytes(part, codec.name), (1, -1)), None)
    if not codec.is_quantised:
        return Encoded(xp.reshape(part, (1, -1)), None)
    data, scales = part[: codec.payload_bytes(elements)], part[codec.payload_bytes(elements) :]
    return Encoded(xp.reshape(data, (1, -1)), xp.reshape(backend.from_bytes(scales, "fp32"), (1, -1)))


def _arriving(site: RankContext, index: int) -> list[Ref]:
    """What an exchange writes on this rank, tokens left out."""
    return [ref for ref in site.program.writes[index] if site.schedule.tensors[ref.name].role != "token"]


def _line(site: RankContext, ref: Ref) -> Array:
    """What is held of an instance as a flat line, digits in the order of the nesting."""
    tensor, line = site.schedule.tensors[ref.name], site.backend.xp.reshape(site.buffers[ref], (-1,))
    mesh = site.schedule.mesh
    return rearranged(site.backend, line, mesh, site.layouts.order_of(ref), canonical(tensor, mesh), site.at)


def _block(site: RankContext, op: Collective, src: Ref, dst: Ref, rows: Array) -> Array:
    """What a collective brought of an activation, in the shape of its block."""
    mesh, tensors = site.schedule.mesh, site.schedule.tensors
    if mesh.live(tensors[dst.name].stacked):  # contributions, to be merged
        return site.backend.xp.reshape(rows, (rows.shape[0], *local_shape(tensors[src.name], mesh)))
    if op.kind == "all_gather":
        local, shards = local_shape(tensors[src.name], mesh), tensors[src.name].placement.shards
        return side_by_side(site.backend.xp, rows, local, mesh.live(op.axes), shards, mesh)
    return site.backend.xp.reshape(rows, local_shape(tensors[dst.name], mesh))


def _rows(site: RankContext, op: Collective, number: int, ref: Ref) -> Array:
    """What is held of the source of that number as [1, n], or as one row for each member that will get it."""
    if op.kind == "reduce_scatter" and is_of_activations(op, site.schedule):
        mesh, shards = site.schedule.mesh, site.schedule.tensors[op.dst[number].name].placement.shards
        return taken_apart(site.backend.xp, site.buffers[ref], mesh.live(op.axes), shards, mesh)
    line = site.backend.xp.reshape(site.buffers[ref], (-1,))
    members = site.schedule.mesh.size(op.axes) if op.kind == "reduce_scatter" else 1
    if line.shape[0] % members:
        raise SimfrontierError(f"{op.kind} {op.name}: {ref.name} has {line.shape[0]} elements for {members} members")
    return site.backend.xp.reshape(line, (members, -1))


def _refuse_wrong_pieces(site: RankContext, op: Collective, message: Array) -> None:
    members = site.schedule.mesh.size(op.axes) if op.kind == "reduce_scatter" else 1
    if message.shape[0] != members:
        raise SimfrontierError(
            f"{op.kind} {op.name} of {op.src[0].name}: written in {message.shape[0]} pieces, "
            f"but sent to {members} members"
        )


def _widths(site: RankContext, op: Collective, ref: Ref) -> tuple[int, ...]:
    """Columns of one tensor in each of the call's messages, as its source holds it."""
    held = site.buffers[ref]
    if isinstance(held, Encoded):
        return tuple(int(part.shape[1]) for part in held.parts)
    members = site.schedule.mesh.size(op.axes) if op.kind == "reduce_scatter" else 1
    return (math.prod(held.shape) // members,)
