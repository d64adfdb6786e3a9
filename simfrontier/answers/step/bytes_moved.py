"""Exact byte counts of a step under the selected algorithms: payload between endpoints by boundary, bytes on links, and
bytes sent by all ranks per parallel dimension, both encoded and in the tensors' original types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from simfrontier.answers.step.volumes import MessageParts, counted_messages, op_need
from simfrontier.core.codecs import Plain
from simfrontier.core.collectives import (
    algorithm as algorithm_of,
    exchanged_bytes,
    message_bytes,
    payload_share,
    sent_share,
    whole_side,
    wire_of,
)
from simfrontier.core.cost import Pricing
from simfrontier.core.engine import SimulatedStep
from simfrontier.core.network import Pattern, ResourceKind
from simfrontier.core.plan import OF_PURPOSE
from simfrontier.core.program import DIRECT, Collective, Exchange, Schedule, axis_of_roles

BOUNDARIES = ("package", "intra_node", "inter_node")
PARTS = ("data", "scales", "padding", "fallback", "persisted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Payload of one step between endpoints, summed over the machine: bytes[boundary][part]; and total bytes on every
    link.
    """

    num_bytes: Mapping[str, Mapping[str, Fraction]]
    on_link: NDArray[np.float64]

    def total(self, boundary: str, part: str = "data") -> float:
        return float(self.num_bytes[boundary][part])


def traffic(step: SimulatedStep) -> Traffic:
    """Return the traffic of a step, counted from the edges and loads of its patterns. `on_link` is the payload in wire
    bytes, not divided by bandwidth shares. With several roles, each counts for its own ranks.
    """
    pricing, parts = step.pricing, MessageParts(step.schedule)
    totals = {boundary: dict.fromkeys(PARTS, Fraction(0)) for boundary in BOUNDARIES}
    volume: dict[tuple[str, int | None], float] = {}
    for role, op, count in counted_messages(step.schedule):
        sizes = parts.bytes_of(op)
        for boundary, per_byte in zip(BOUNDARIES, sent_per_byte(op, pricing, role), strict=True):
            if per_byte:
                for part, size in sizes.items():
                    totals[boundary][part] += count * per_byte * size
        key = pricing.key_of(op), _whose(op, pricing, role)
        volume[key] = volume.get(key, 0.0) + count * pricing.volume_bytes(op)
    return Traffic(num_bytes=totals, on_link=_on_links(pricing, volume))


def sent_per_byte(op: Collective | Exchange, pricing: Pricing, role: int = 0) -> tuple[Fraction, ...]:
    """Return the bytes that cross each boundary per byte of the op's message, by its algorithm, summed over the ranks
    of a role (for ops shared by roles: over all participants); for an exchange, per byte of its larger message.
    """
    pattern, whose = pricing.pattern_of(op), _whose(op, pricing, role)
    share = Fraction(1)
    if isinstance(op, Collective):
        share = sent_share(op, pricing.algorithms[op.number], pricing.schedule.mesh)
    edges = pattern.edges if whose is None else pattern.edges[_groups(pricing, pattern, whose)]
    return tuple(share * Fraction(count, pattern.divisor) for count in edges.sum(axis=0).tolist())


def _whose(op: Collective | Exchange, pricing: Pricing, role: int) -> int | None:
    """Return the role whose groups execute an op; None if all groups of its pattern do."""
    return None if pricing.role_assignment.is_one or pricing.role_assignment.is_shared(op) else role


def _groups(pricing: Pricing, pattern: Pattern, role: int) -> NDArray[np.int32]:
    """Return the groups of a pattern that contain ranks of a role."""
    return np.unique(pattern.group_of[pricing.role_assignment.of_rank == role])


def payload_weights(pricing: Pricing, key: str) -> NDArray[np.float64]:
    """Return, for each wire load of a pattern, the payload bytes per byte that a rank sends [num_wire_loads]."""
    pattern = pricing.counted[key]
    wires = slice(0, pattern.num_wire_loads)
    used = algorithm_of(pricing.carrier(key)).shares_on(pricing.library, pricing.machine)
    by_class = np.array([used.get(name, 1.0) for name in pricing.fabric.class_names])
    weight: NDArray[np.float64] = pattern.weight[wires] * by_class[pricing.fabric.link_class[pattern.link[wires]]]
    return weight


def _on_links(pricing: Pricing, volume: Mapping[tuple[str, int | None], float]) -> NDArray[np.float64]:
    loads = np.zeros(pricing.fabric.num_links)
    for (key, role), size in volume.items():
        pattern = pricing.counted[key]
        wires, weight = slice(0, pattern.num_wire_loads), payload_weights(pricing, key)
        if role is not None:
            weight = weight * np.isin(pattern.act[wires], _groups(pricing, pattern, role))
        loads += np.bincount(pattern.link[wires], weight, minlength=len(loads)) * size
    loads[pricing.fabric.kind != ResourceKind.WIRE] = 0.0
    return loads


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveBytes:
    """One kind of communication in a step: its calls, and the bytes per step that enter a node, payload and overhead
    together.

    `need`: the minimum that any algorithm must bring into a node, None if the nodes of the mesh are not those of the
    machine; `link`: the bytes that the selected algorithm brings in.
    """

    name: str
    kind: str
    axes: tuple[str, ...]
    codec: str
    algorithm: str
    calls: int
    message_bytes: int
    need: Fraction | None
    link: Fraction


def moves_of(step: SimulatedStep) -> tuple[MoveBytes, ...]:
    """Return the collectives and exchanges of a step, merged by kind, in order of first appearance. Calls are summed
    over roles; `need` and `link` refer to an average node.
    """
    pricing, schedule = step.pricing, step.schedule
    num_nodes = pricing.fabric.num_nodes
    axes: tuple[str, ...]
    known: dict[tuple[str, str, tuple[str, ...], str, str], list[tuple[int, int, Fraction, Fraction]]] = {}
    for role, op, count in counted_messages(schedule):
        if isinstance(op, Exchange):
            size, axes, algorithm = int(pricing.volume_bytes(op)), (op.axis,), DIRECT
            moved = sum(exchanged_bytes(op, schedule.tensors, schedule.mesh))
        else:
            size = moved = message_bytes(op, schedule.tensors, schedule.mesh)
            axes, algorithm = op.axes, pricing.algorithms[op.number]
        need = op_need(op, schedule, schedule.mesh.names[0]) if num_nodes > 1 else Fraction(0)
        link = size * sent_per_byte(op, pricing, role)[-1] / num_nodes
        key = (op.name, op.kind, axes, str(op.codec), algorithm)
        known.setdefault(key, []).append((count, count * moved, count * need, count * link))
    is_known = num_nodes == 1 or pricing.mesh_is_machine
    return tuple(
        MoveBytes(
            name=name,
            kind=kind,
            axes=axes,
            codec=codec,
            algorithm=algorithm,
            calls=sum(calls for calls, *_ in each),
            message_bytes=sum(moved for _, moved, *_ in each),
            need=sum((need for *_, need, _ in each), Fraction(0)) if is_known else None,
            link=sum((link for *_, link in each), Fraction(0)),
        )
        for (name, kind, axes, codec, algorithm), each in known.items()
    )


Side = Literal["dp", "tp", "pp", "zero", "other"]
SIDES: Final[tuple[Side, ...]] = get_args(Side)
"""As of plan.compression; other: scalars, and the gradients of a weight that two stages hold."""
_OF_NAME: Final[Mapping[str, Side]] = {**OF_PURPOSE, "forward": "pp", "backward": "pp", "both": "pp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBytes:
    """Bytes that all ranks send in a step, as encoded and in the original types of the tensors."""

    num_bytes: Fraction = Fraction(0)
    plain_bytes: Fraction = Fraction(0)

    @property
    def share(self) -> Fraction | None:
        """Return the bytes sent as a fraction of the unencoded bytes: below 1 if codecs shrink messages; None if
        nothing is sent.
        """
        return self.num_bytes / self.plain_bytes if self.plain_bytes else None

    def __add__(self, other: SentBytes) -> SentBytes:
        return SentBytes(num_bytes=self.num_bytes + other.num_bytes, plain_bytes=self.plain_bytes + other.plain_bytes)


def sent_by_dimension(schedule: Schedule) -> dict[Side, SentBytes]:
    """Return the bytes of one step, summed over all ranks; scales and padding are in them.

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
    """Return the factor from the bytes of one call's messages to the bytes sent by all ranks: for an exchange the
    number of pairs; for a collective the number of participants (the ranks of one role, or all if it spans roles) times
    the share that each sends.
    """
    mesh = schedule.mesh
    if isinstance(op, Exchange):
        return Fraction(mesh.num_ranks, mesh[op.axis])
    axis = axis_of_roles(schedule)
    ranks = mesh.num_ranks if axis is None or axis in op.axes else mesh.num_ranks // mesh[axis]
    return ranks * payload_share(op, mesh)


def _sizes(op: Collective | Exchange, schedule: Schedule) -> tuple[int, int]:
    """Return the bytes of one call's messages as (encoded, unencoded); for an exchange, of both directions."""
    tensors, mesh = schedule.tensors, schedule.mesh
    if isinstance(op, Exchange):
        moved = [tensors[ref.name] for ref in op.reads]
        plain = sum(Plain(tensor.dtype).wire_bytes(tensor.local_elements(mesh)) for tensor in moved)
        return sum(exchanged_bytes(op, tensors, mesh)), plain
    coded = message_bytes(op, tensors, mesh)
    bare = {name: replace(op, codec=Plain(tensors[name].dtype), per_hop=False) for name, *_ in whole_side(op)}
    return coded, sum(wire_of(bare[ref.name], tensors[ref.name], mesh)[0] for ref in whole_side(op))
