"""Exact data volume of a collective: its messages, the share of the message that a rank sends, and the bytes that are
not payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from simfrontier.core.collectives.algorithms import algorithm
from simfrontier.core.dtypes import DTYPE_BYTES
from simfrontier.core.program import LIBRARY, RING, SHIFT, Collective, CollectiveKind, Exchange, Mesh, Ref, Tensor

Part = Literal["data", "scales", "padding", "fallback", "persisted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One collective call on the network: S bytes (all-gather: output of a rank; others: input of a rank)."""

    what: Literal["data", "scales"]
    num_bytes: int


def whole_side(op: Collective) -> tuple[Ref, ...]:
    """Return the references to tensors on the side of the op (input or output) that holds the whole message."""
    return op.dst if op.kind == "all_gather" else op.src


def wire_of(op: Collective, tensor: Tensor, mesh: Mesh) -> tuple[int, int]:
    """Return the bytes of one tensor of `whole_side` in the op's messages: (data with padding, scales).

    Every piece is encoded separately, so an all-gather of n pieces carries n times the scales of one piece.
    """
    # data encoded per hop is cut as a ring cuts it, the last piece padded
    pieces = 1 if op.kind == "all_reduce" and not op.per_hop else mesh.size(op.axes)
    parts = 1 if op.piece is None else op.piece.share_of(tensor)
    piece = -(-tensor.local_elements(mesh) // (pieces * parts))
    return pieces * op.codec.payload_bytes(piece), pieces * op.codec.scale_bytes(piece)


def padding_of(op: Collective, tensor: Tensor, mesh: Mesh) -> Fraction:
    """Return the bytes of padding in the data: the padding of the whole block, divided evenly over its flat pieces
    (although only the last pieces contain it)."""
    return Fraction(tensor.padding(mesh) * op.codec.bits, 8 * mesh.size(tensor.placement.flat))


def messages_of(op: Collective, tensors: Mapping[str, Tensor], mesh: Mesh) -> tuple[Message, ...]:
    """Return the messages of one call: first the data, then the scales if the codec has them."""
    parts = [wire_of(op, tensors[ref.name], mesh) for ref in whole_side(op)]
    data, scales = sum(part[0] for part in parts), sum(part[1] for part in parts)
    out = [Message(what="data", num_bytes=data)]
    if scales:
        out.append(Message(what="scales", num_bytes=scales))
    return tuple(out)


def message_bytes(op: Collective, tensors: Mapping[str, Tensor], mesh: Mesh) -> int:
    """Return the bytes of all messages of one call."""
    return sum(message.num_bytes for message in messages_of(op, tensors, mesh))


def element_bytes(op: Collective, message: Message) -> int:
    """Return the size in bytes of an element, the smallest unit into which a message is cut: 4 for scales (fp32), 1 for
    quantised data, otherwise the size of the codec's dtype."""
    if message.what == "scales":
        return DTYPE_BYTES["fp32"]
    return 1 if op.codec.is_opaque else DTYPE_BYTES[op.codec.name]


def brought_bytes(op: Collective, tensors: Mapping[str, Tensor], mesh: Mesh) -> int:
    """Return the bytes, as stored in memory, that a rank contributes to a call: its piece in an all-gather, its vector
    in an all-reduce."""
    own = (tensors[ref.name] for ref in op.src)
    return sum(each.local_bytes(mesh) // (1 if op.piece is None else op.piece.share_of(each)) for each in own)


def exchanged_bytes(op: Exchange, tensors: Mapping[str, Tensor], mesh: Mesh) -> tuple[int, int]:
    """Return the bytes that each pair of ranks exchanges in one call: from the first end to the second, and in the
    opposite direction."""

    def total(refs: tuple[Ref, ...]) -> int:
        return sum(op.codec.wire_bytes(tensors[ref.name].local_elements(mesh)) for ref in refs)

    return total(op.src), total(op.back_src)


def sent_and_received(
    op: Exchange, tensors: Mapping[str, Tensor], mesh: Mesh, at: tuple[str, int] | None
) -> tuple[int, int]:
    """Return the bytes that each rank at one end of an exchange sends, and those that it receives; `at`: the mesh axis
    and coordinate of the ranks at this end."""
    assert at is not None, f"{op.name}: an exchange of a program that is nowhere"
    there, back = exchanged_bytes(op, tensors, mesh)
    return (there, back) if at[1] == op.ends[0] else (back, there)


def sent_share(op: Collective, name: str, mesh: Mesh) -> Fraction:
    """Return the bytes that a rank sends by the named algorithm, per byte of the message; these bytes are the volume to
    which loads refer."""
    return sent_part(op.kind, name, mesh.size(op.axes))


def payload_share(op: Collective, mesh: Mesh) -> Fraction:
    """Return the bytes that a rank must send, whatever the library's algorithm, per byte of the message."""
    return sent_share(op, SHIFT if op.turns else RING, mesh)


def sent_part(kind: CollectiveKind, name: str, num_ranks: int) -> Fraction:
    """Return the bytes that a rank sends by the named algorithm, per byte of the message, for a kind of collective in a
    group of `num_ranks` ranks."""
    return algorithm(name).sent_part(kind, num_ranks)


def call_of(op: Collective) -> CollectiveKind | None:
    """Return the kind of library call that carries out an op; None if the schedule prescribes the algorithm.

    A reduction of encoded data is an all-to-all, after which the ranks decode and sum.
    """
    if op.is_added_later:
        return "all_to_all"
    return op.kind if op.via == LIBRARY else None
