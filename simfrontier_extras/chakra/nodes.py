"""Nodes of a trace: the Chakra representation of an op, as bytes of its message.

Attributes have the names and types that ASTRA-sim's feeders read. The older one (mlcommons/chakra, src/feeder/
et_feeder_node.cpp, commit 02da5d056f2f9c2a994d1887ffba6ad4c7c99695) takes each attribute in one type only: num_ops,
comm_type and comm_size as int64, tensor_size as uint64, comm_src, comm_dst and comm_tag as int32, pg_name as string.
The one in use (astra-sim, astra-sim/workload/feeder_v3, commit 2aa2bbd1662c3a6c6fdeb51ab8a174b1602b923f) converts
between types of integers, so that these are right for both.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from simfrontier.core.collectives import message_bytes, sent_and_received
from simfrontier.core.program import (
    HOST,
    Call,
    CallSequence,
    Collective,
    CollectiveKind,
    Communicator,
    Compute,
    Exchange,
    ExpandedProgram,
    Mesh,
    Op,
    Schedule,
    sequence_of,
    traffic_bytes,
)
from simfrontier_extras.chakra.schema import Attribute, NodeType

CALLS_OF_COMM: Final = 1_000_000  # tags of one communicator between two ends; ASTRA-sim takes tags below 500,000,000
COMM_TYPES: Final[dict[CollectiveKind, int]] = {  # the schema's enum CollectiveCommType
    "all_reduce": 0,
    "all_gather": 2,
    "all_to_all": 6,
    "reduce_scatter": 7,
}


@dataclass(frozen=True, slots=True)
class Peer:
    """The peer of a message: the rank at distance `offset`; `receives`: whether the message comes from this peer."""

    offset: int
    receives: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A node without its position in a program: its type, its attributes as (name, field, value), and the attribute
    that differs between ranks: the group's name, or the two ranks of a message."""

    type: NodeType
    attributes: tuple[Attribute, ...]
    own: Communicator | Peer | None = None


def kinds_of(op: Op, schedule: Schedule, at: tuple[str, int] | None) -> tuple[Kind, ...]:
    """Return the nodes of an op: one node, except for an exchange, which has one node for each message that the role at
    that position sends or receives. Sizes are in bytes, num_ops is in floating-point operations of one rank."""
    match op:
        case Compute():
            return (_compute(op, schedule),)
        case Collective():
            return (_collective(op, schedule),)
        case Exchange():
            return _messages(op, schedule, at)


def _compute(op: Compute, schedule: Schedule) -> Kind:
    # ASTRA-sim's roofline divides by num_ops: what only moves bytes has one operation, which adds nothing to its time
    operations = max(1, round(op.local_flops(schedule.mesh)))
    return Kind(
        type=NodeType.COMP_NODE,
        attributes=(
            ("is_cpu_op", "bool_val", op.lane == HOST),
            ("num_ops", "int64_val", operations),
            ("tensor_size", "uint64_val", traffic_bytes(op, schedule.tensors, schedule.mesh)),
        ),
    )


def _collective(op: Collective, schedule: Schedule) -> Kind:
    return Kind(
        type=NodeType.COMM_COLL_NODE,
        attributes=(
            ("is_cpu_op", "bool_val", False),
            ("comm_type", "int64_val", COMM_TYPES[op.wire_kind]),
            ("comm_size", "int64_val", brought_to(op, schedule)),
        ),
        own=communicator_of(op, schedule),
    )


def communicator_of(op: Collective, schedule: Schedule) -> Communicator:
    """Return the communicator of a collective."""
    return Communicator(op.comm, schedule.mesh.live(op.axes))


def brought_to(op: Collective, schedule: Schedule) -> int:
    """Return the input bytes of a rank in a collective, data and scales: for an all-gather the rank's own piece, for
    all other collectives the whole message.

    This is `comm_size` in ASTRA-sim's sense: native_collectives/collective_algorithm/Ring.cc (commit 7c77518) sends
    messages of data_size in an all-gather, and of data_size / nodes_in_ring in the other collectives.
    """
    whole = message_bytes(op, schedule.tensors, schedule.mesh)
    if op.wire_kind != "all_gather":
        return whole
    piece, rest = divmod(whole, schedule.mesh.size(op.axes))
    assert not rest, f"{op.name}: an all-gather of {whole} bytes in unequal pieces"
    return piece


def _messages(op: Exchange, schedule: Schedule, at: tuple[str, int] | None) -> tuple[Kind, ...]:
    sent, received = sent_and_received(op, schedule.tensors, schedule.mesh, at)
    offset = offset_of(op, at, schedule.mesh)
    each = ((NodeType.COMM_SEND_NODE, sent, False), (NodeType.COMM_RECV_NODE, received, True))
    return tuple(
        Kind(
            type=kind,
            attributes=(("is_cpu_op", "bool_val", False), ("comm_size", "int64_val", size)),
            own=Peer(offset, receives),
        )
        for kind, size, receives in each
        if size
    )


def name_of(op: Op, call: Call) -> str:
    """Return the name of a node: the op's kind and name, and the layer and micro-batch of its call."""
    return f"{op.kind} {op.name} layer {call.layer} micro {call.micro}"


# ── exchanges: tags, the same at both ends, by which a send finds its receive ──


def tags_of(program: ExpandedProgram, comms: dict[str, int]) -> dict[int, int]:
    """Return the tag of each exchange of a program, by its op index. The k-th exchange of a communicator between two
    peers is the same exchange in both peers' programs. `comms`: numbers of communicators, as `comms_of` returns
    them."""
    count: Counter[CallSequence] = Counter()
    out = {}
    for index, op in enumerate(program.ops):
        if isinstance(op, Exchange):
            sequence = sequence_of(op)
            assert count[sequence] < CALLS_OF_COMM, f"{op.name}: {CALLS_OF_COMM:,} calls between two ends"
            out[index] = comms[op.comm] * CALLS_OF_COMM + count[sequence]
            count[sequence] += 1
    return out


def comms_of(schedule: Schedule) -> dict[str, int]:
    """Return a number for each communicator of exchanges, in the order of first appearance in the schedule."""
    names = dict.fromkeys(op.comm for op in schedule.ops if isinstance(op, Exchange))
    return {name: number for number, name in enumerate(names)}


def offset_of(op: Exchange, at: tuple[str, int] | None, mesh: Mesh) -> int:
    """Return the distance (in ranks) from a rank to its peer, for the ranks whose role is at that position."""
    assert at is not None, f"{op.name}: an exchange in a role at no place"
    here, there = op.ends if at[1] == op.ends[0] else reversed(op.ends)
    return (there - here) * mesh.size(mesh.names[mesh.names.index(op.axis) + 1 :])
