"""What a collective moves: its messages, the share of them that a rank sends, and what of it is not payload. All exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from simfrontier.collectives.library import Algorithm
from simfrontier.schedule.ir import Collective, Tensor
from simfrontier.schedule.mesh import Mesh

Part = Literal["data", "scales", "padding", "fallback", "persisted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One call on the wire: S bytes (all-gather: what a rank ends with; reductions and all-to-all: what it begins with)."""

    what: Literal["data", "scales"]
    num_bytes: int


def _whole(op: Collective) -> tuple[str, ...]:
    """Names of the tensors on the side of the op that holds the whole message."""
    return tuple(ref.name for ref in (op.dst if op.kind == "all_gather" else op.src))


def messages_of(op: Collective, tensors: Mapping[str, Tensor], mesh: Mesh) -> tuple[Message, ...]:
    """The messages of one call: data, then scales where the codec has them.

    Every piece is encoded by itself, so an all-gather of n pieces carries n times the scales of one.
    """
    size = mesh.size(op.axes)
    data = scales = 0
    for name in _whole(op):
        pieces = size if op.kind in ("all_gather", "all_to_all", "reduce_scatter") else 1
        piece = tensors[name].local_elements(mesh) // pieces
        data += pieces * op.codec.payload_bytes(piece)
        scales += pieces * op.codec.scale_bytes(piece)
    out = [Message(what="data", num_bytes=data)]
    if scales:
        out.append(Message(what="scales", num_bytes=scales))
    return tuple(out)


def sent_share(op: Collective, algorithm: Algorithm, mesh: Mesh) -> Fraction:
    """Bytes that a rank sends per byte of the message: the volume that a pattern's loads are counted in."""
    size = mesh.size(op.axes)
    if algorithm == "tree":
        return Fraction(1)
    share = Fraction(size - 1, size)
    return 2 * share if op.kind == "all_reduce" else share


def overheads_of(op: Collective, tensors: Mapping[str, Tensor], mesh: Mesh) -> dict[Part, Fraction]:
    """The message's bytes by what they are; the parts sum to all messages' bytes."""
    messages = {message.what: message.num_bytes for message in messages_of(op, tensors, mesh)}
    padding = Fraction(0)
    for name in _whole(op):
        tensor = tensors[name]
        pad, padded = tensor.padding(mesh), tensor.local_elements(mesh)
        flat = mesh.size(tensor.placement.flat)
        padding += Fraction(pad * op.codec.bits, 8 * flat) * (mesh.size(tensor.stacked)) if padded else 0
    return {"data": messages["data"] - padding, "scales": Fraction(messages.get("scales", 0)), "padding": padding}
