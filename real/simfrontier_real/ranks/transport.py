"""Transport interface: communication of one message in a collective or in an exchange with another rank; implemented by
loopback, torch and explicit transfers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from simfrontier.core.program import Collective, Compute, Exchange, Mesh, PartialOp, Schedule
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.layout import coordinates
from simfrontier_real.ops.programs import Programs


@dataclass(frozen=True, slots=True, order=True)
class Channel:
    """Communicator of one lane: the groups of ranks over `axes`, ordered by coordinates with the first axis slowest;
    for exchanges, the pairs of ranks at two coordinates of an axis (`ends`), the lower first.

    Each lane has its own communicators, even where the schedule allows lanes to share one, because messages carry no
    tags.
    """

    comm: str
    lane: str
    axes: tuple[str, ...]
    ends: tuple[int, ...] = ()

    def groups(self, mesh: Mesh) -> list[tuple[int, ...]]:
        """Return all groups, each rank in exactly one; a rank without an exchange forms a group of its own."""
        table = mesh.groups(self.axes).tolist()
        if not self.ends:
            return [tuple(group) for group in table]
        out: list[tuple[int, ...]] = []
        for along in table:
            out.append(tuple(along[end] for end in self.ends))
            out += [(rank,) for place, rank in enumerate(along) if place not in self.ends]
        return out


def group_of(mesh: Mesh, axes: tuple[str, ...], rank: int) -> tuple[int, tuple[int, ...]]:
    """Return the number of a rank's group over `axes`, and the ranks of this group."""
    table = mesh.groups(axes)
    number = int((table == rank).any(axis=1).argmax())
    return number, tuple(table[number].tolist())


class Pending(Protocol):
    """A started collective, exchange, message or batch of messages."""

    def is_done(self) -> bool:
        """Return whether `wait` would return at once (False where that cannot be known without waiting)."""

    def wait(self) -> Any:
        """Wait for the result and return it: all-gather [members, n] from [n]; reduce-scatter [n] from [members, n];
        all-reduce [n] from [n]; all-to-all [members, n] from [members, n], one row from each rank; exchange: the
        received message (None if there is none); single messages and batches: None."""


class Transport(Protocol):
    """Collectives and exchanges of one rank. All ranks of a group must make the calls on a channel in the same
    order."""

    def begin(self, op: Collective, message: Array, reduction: PartialOp = "sum") -> Pending:
        """Start a collective on one message; never blocks to wait for other ranks."""

    def exchange(self, op: Exchange, message: Array | None, room: Array | None) -> Pending:
        """Start sending `message` to the peer of an exchange and receiving into `room` (None: no message in that
        direction); never blocks to wait for the peer."""


class WireMessage(NamedTuple):
    """Message on a wire: `values` are sent to rank `peer` of the group, or received from it."""

    peer: int
    is_send: bool
    values: Array


class Wire(Protocol):
    """Wire of one rank on the group of a channel, for explicit transfers. Ranks are numbered by their order in the
    group."""

    @property
    def in_batches(self) -> bool:
        """True if messages can be in flight together only when they were started in one call (as with nccl)."""

    def exchange(self, moves: Sequence[WireMessage]) -> Sequence[Pending]:
        """Start messages that do not wait for each other; never blocks to wait for another rank. Return one Pending per
        message, or a single one for all if `in_batches`. Messages between the same two ranks are matched in the order
        of the calls; their arrays must not be changed or read before they have been waited for."""


@dataclass(frozen=True, slots=True)
class ShiftPending:
    """Pending step around a ring: the message to the next rank, and that from the one before, which comes into
    `room`."""

    messages: Sequence[Pending]
    room: Array

    def is_done(self) -> bool:
        return all(message.is_done() for message in self.messages)

    def wait(self) -> Array:
        for message in self.messages:
            message.wait()
        return self.room


def shifted(wire: Wire, members: Sequence[int], rank: int, message: Array, room: Array) -> ShiftPending:
    """Start a step around a ring of `members`: send a message to the next rank, receive that of the one before."""
    place, size = members.index(rank), len(members)
    moves = (WireMessage((place - 1) % size, False, room), WireMessage((place + 1) % size, True, message))
    return ShiftPending(wire.exchange(moves), room)


def collectives_of(schedule: Schedule) -> list[Collective]:
    """Return the distinct collectives of a schedule in order of appearance; equal ones are listed once, as in the
    lowered file."""
    return list(dict.fromkeys(_each_once(schedule)))


def numbers_of(schedule: Schedule) -> dict[int, int]:
    """Return for each op's number the number of its collective among the distinct collectives."""
    number = {op: number for number, op in enumerate(collectives_of(schedule))}
    return {op.number: number[op] for op in _each_once(schedule)}


def _each_once(schedule: Schedule) -> list[Collective]:
    return [op for op in schedule.ops if isinstance(op, Collective)]


def channel_of(op: Collective | Exchange, mesh: Mesh) -> Channel:
    """Return the channel that a collective or an exchange uses."""
    if isinstance(op, Exchange):
        return Channel(op.comm, op.lane, (op.axis,), tuple(sorted(op.ends)))
    return Channel(op.comm, op.lane, mesh.live(op.axes))


def channels_of(schedule: Schedule) -> list[Channel]:
    """Return the channels that a schedule uses, sorted."""
    ops = (op for op in schedule.ops if not isinstance(op, Compute))
    return sorted({channel_of(op, schedule.mesh) for op in ops})


def peer_of(op: Exchange, mesh: Mesh, rank: int) -> int:
    """Return the peer rank of an exchange, whose other coordinates are the same as this rank's."""
    at = coordinates(mesh, rank)[op.axis]
    assert at in op.ends, f"{op.name}: rank {rank} is at none of its ends"
    other = op.ends[0] if at == op.ends[1] else op.ends[1]
    stride = math.prod(size for _, size in mesh.axes[mesh.names.index(op.axis) + 1 :])
    return rank + (other - at) * stride


def calls_by_group(schedule: Schedule, programs: Programs) -> Iterator[tuple[list[tuple[int, ...]], list[list[int]]]]:
    """Return (groups of ranks, for each role the calls on one communicator): the k-th call is the same collective or
    exchange on all ranks of a group."""
    calls: dict[Channel, list[list[int]]] = {}
    for role, program in enumerate(programs.of_roles):
        for index, op in enumerate(program.ops):
            if not isinstance(op, Compute):
                channel = channel_of(op, schedule.mesh)
                calls.setdefault(channel, [[] for _ in programs.of_roles])[role].append(index)
    for channel, indices in calls.items():
        groups = channel.groups(schedule.mesh)
        yield [group for group in groups if len(group) > 1 or not channel.ends], indices
