"""From buffers to messages and back: several tensors travel as one flat message (and one of scales)."""

from __future__ import annotations

import math

from simfrontier.errors import SimfrontierError
from simfrontier.schedule.ir import Collective, Ref
from simfrontier_real.arrays import Array
from simfrontier_real.codecs import Encoded
from simfrontier_real.site import Site


def outgoing(site: Site, index: int, op: Collective) -> tuple[Array, ...]:
    """The messages of one call: all-gather and all-reduce [n], reduce-scatter and all-to-all [members, n]; data, then
    scales where the codec has them."""
    src = site.program.reads[index]
    if index in site.buffers.bundled:
        return (site.buffers.bundled[index],)
    if op.codec.is_quantised or site.schedule.tensors[src[0].name].codec is not None:
        held = [site.buffers[ref] for ref in src]
        columns = [list(parts) for parts in zip(*(each.parts for each in held), strict=True)]
    else:
        columns = [[_rows(site, op, ref) for ref in src]]
    messages = tuple(site.backend.concat(parts, axis=1) for parts in columns)
    for message in messages:
        _refuse_wrong_pieces(site, op, message)
    if op.kind in ("all_gather", "all_reduce"):
        messages = tuple(site.backend.xp.reshape(message, (-1,)) for message in messages)
    if op.kind == "all_reduce" and len(src) == 1 and not site.schedule.tensors[op.dst[0].name].shares:
        return tuple(site.backend.xp.asarray(message, copy=True) for message in messages)  # it is reduced in place
    return messages


def incoming(site: Site, index: int, op: Collective, results: tuple[Array, ...]) -> None:
    """Put what a call brought into the buffers of its destinations."""
    src = site.program.reads[index]
    dst = site.program.writes[index][: len(op.dst)]
    xp = site.backend.xp
    rows = tuple(result if len(result.shape) == 2 else xp.reshape(result, (1, -1)) for result in results)
    stored = op.codec.is_quantised or site.schedule.tensors[src[0].name].codec is not None
    start = [0] * len(rows)
    for a, b in zip(src, dst, strict=True):
        widths = _widths(site, op, a)
        parts = []
        for number, width in enumerate(widths):
            parts.append(rows[number][:, start[number] : start[number] + width])
            start[number] += width
        if stored:
            site.buffers[b] = Encoded(parts[0], parts[1] if len(parts) > 1 else None)
        else:
            alone = parts[0].shape[0] == 1 or parts[0].shape == rows[0].shape
            site.buffers[b] = xp.reshape(parts[0], (-1,)) if alone else parts[0]  # no copy: a permute follows
    for ref in site.program.writes[index][len(op.dst) :]:
        site.buffers[ref] = None  # a token


def _rows(site: Site, op: Collective, ref: Ref) -> Array:
    """A line as [1, n], or as one row for each member that will get it."""
    line = site.backend.xp.reshape(site.buffers[ref], (-1,))
    members = site.schedule.mesh.size(op.axes) if op.kind == "reduce_scatter" else 1
    if line.shape[0] % members:
        raise SimfrontierError(f"{op.kind} {op.name}: {ref.name} has {line.shape[0]} elements for {members} members")
    return site.backend.xp.reshape(line, (members, -1))


def _refuse_wrong_pieces(site: Site, op: Collective, message: Array) -> None:
    members = site.schedule.mesh.size(op.axes) if op.kind == "reduce_scatter" else 1
    if message.shape[0] != members:
        raise SimfrontierError(
            f"{op.kind} {op.name} of {op.src[0].name}: written in {message.shape[0]} pieces, "
            f"but sent to {members} members"
        )


def _widths(site: Site, op: Collective, ref: Ref) -> tuple[int, ...]:
    """Columns of one tensor in each of the call's messages, as its source holds it."""
    held = site.buffers[ref]
    if isinstance(held, Encoded):
        return tuple(int(part.shape[1]) for part in held.parts)
    members = site.schedule.mesh.size(op.axes) if op.kind == "reduce_scatter" else 1
    return (math.prod(held.shape) // members,)
