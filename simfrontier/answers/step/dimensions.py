"""Bytes that all ranks must send in a step, by parallel dimension: exact bytes as coded, and in the tensors' own
types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal, get_args

from simfrontier.answers.step.volumes import counted_messages
from simfrontier.core.codecs import Plain
from simfrontier.core.collectives import exchanged_bytes, message_bytes, sent_part, whole_side, wire_of
from simfrontier.core.plan import OF_PURPOSE
from simfrontier.core.program import RING, Collective, Exchange, Schedule, axis_of_roles

Side = Literal["dp", "tp", "pp", "zero", "other"]
SIDES: Final[tuple[Side, ...]] = get_args(Side)
"""As of plan.compression; other: scalars, and the gradients of a weight that two stages hold."""
_OF_NAME: Final[Mapping[str, Side]] = {**OF_PURPOSE, "forward": "pp", "backward": "pp", "both": "pp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBytes:
    """Bytes that all ranks send in a step, and those of the same messages in their tensors' own types."""

    num_bytes: Fraction = Fraction(0)
    plain_bytes: Fraction = Fraction(0)

    @property
    def share(self) -> Fraction | None:
        """Return the share of the plain bytes that is sent: below 1 where messages shrink; None where nothing is
        sent."""
        return self.num_bytes / self.plain_bytes if self.plain_bytes else None

    def __add__(self, other: SentBytes) -> SentBytes:
        return SentBytes(num_bytes=self.num_bytes + other.num_bytes, plain_bytes=self.plain_bytes + other.plain_bytes)


def sent_by_dimension(schedule: Schedule) -> dict[Side, SentBytes]:
    """The bytes of one step, summed over all ranks; scales and padding are in them.

    Counted is the payload that a rank must send, whatever the library's algorithm: of a call's messages, S bytes
    together in a group of n ranks,

        all-gather, reduce-scatter, all-to-all   (n - 1)/n S    all but its own piece
        all-reduce                             2 (n - 1)/n S    a reduce-scatter and an all-gather
        exchange                                 S              once each way

    A coded all-reduce is an all-to-all and an all-gather of coded pieces in the schedule, and so comes to the same
    2 (n - 1)/n of its coded S. Codings per hop count at their coded size as well.
    """
    out: dict[Side, SentBytes] = {side: SentBytes() for side in SIDES}
    for _, op, count in counted_messages(schedule):
        side = _OF_NAME.get(op.name, "other")
        times = count * senders(op, schedule)
        coded, plain = _sizes(op, schedule)
        out[side] += SentBytes(num_bytes=times * coded, plain_bytes=times * plain)
    return out


def senders(op: Collective | Exchange, schedule: Schedule) -> Fraction:
    """Return the factor that one call's messages are multiplied by to give what all ranks send: pairs of an exchange;
    of a collective, the ranks that take part (those of one role, or all where it spans roles) times the share that each
    sends."""
    mesh = schedule.mesh
    if isinstance(op, Exchange):
        return Fraction(mesh.num_ranks, mesh[op.axis])
    axis = axis_of_roles(schedule)
    ranks = mesh.num_ranks if axis is None or axis in op.axes else mesh.num_ranks // mesh[axis]
    return ranks * sent_part(op.kind, RING, mesh.size(op.axes))


def _sizes(op: Collective | Exchange, schedule: Schedule) -> tuple[int, int]:
    """Bytes of one call's messages, of both ways where it is an exchange: (as coded, plain)."""
    tensors, mesh = schedule.tensors, schedule.mesh
    if isinstance(op, Exchange):
        moved = [tensors[ref.name] for ref in op.reads]
        plain = sum(Plain(tensor.dtype).wire_bytes(tensor.local_elements(mesh)) for tensor in moved)
        return sum(exchanged_bytes(op, tensors, mesh)), plain
    coded = message_bytes(op, tensors, mesh)
    bare = {name: replace(op, codec=Plain(tensors[name].dtype), per_hop=False) for name, *_ in whole_side(op)}
    return coded, sum(wire_of(bare[ref.name], tensors[ref.name], mesh)[0] for ref in whole_side(op))
