"""Interface to the outside world: a collective of one message, or an exchange with another rank; implemented by
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
    """One communicator of one lane: the groups over `axes`, members in the order of the axes, the first slowest; of
    exchanges the pairs of ranks at two places of an axis (`ends`), the lower first.

    Lanes have communicators of their own even where the schedule lets them share one, because messages carry no tags.
    """

    comm: str
    lane: str
    axes: tuple[str, ...]
    ends: tuple[int, ...] = ()

    def groups(self, mesh: Mesh) -> list[tuple[int, ...]]:
        """All groups, in which every rank is once; those that take part in no exchange are alone."""
        table = mesh.groups(self.axes).tolist()
        if not self.ends:
            return [tuple(group) for group in table]
        out: list[tuple[int, ...]] = []
        for along in table:
            out.append(tuple(along[end] for end in self.ends))
            out += [(rank,) for place, rank in enumerate(along) if place not in self.ends]
        return out


def group_of(mesh: Mesh, axes: tuple[str, ...], rank: int) -> tuple[int, tuple[int, ...]]:
    """The number of a rank's group over `axes`, and its members."""
    table = mesh.groups(axes)
    number = int((table == rank).any(axis=1).argmax())
    return number, tuple(table[number].tolist())


class Pending(Protocol):
    """A collective, an exchange, a message or a batch of messages that has started."""

    def is_done(self) -> bool:
        """Return whether `wait` would return at once (False where that cannot be known without waiting)."""

    def wait(self) -> Any:
        """The result: all-gather [members, n] from [n]; reduce-scatter [n] from [members, n]; all-reduce [n] from [n];
        all-to-all [members, n] from [members, n], the row of each member; exchange: what has arrived (None where
        nothing comes); messages: None."""


class Transport(Protocol):
    """Collectives and exchanges of one rank. Calls on a channel are made in the same order by all its
    members."""

    def begin(self, op: Collective, message: Array, reduction: PartialOp = "sum") -> Pending:
        """Start a collective's call for one message; never blocks for other ranks."""

    def exchange(self, op: Exchange, message: Array | None, room: Array | None) -> Pending:
        """Start to send `message` to the rank at the other end and to receive into `room` (None: nothing goes in that
        direction); never blocks for it."""


class WireMessage(NamedTuple):
    """One message: `values` to the member `peer`, or from it into `values`."""

    peer: int
    is_send: bool
    values: Array


class Wire(Protocol):
    """One member's end of one channel's group, for explicit transfers. Members are numbered in the group's order."""

    @property
    def in_batches(self) -> bool:
        """True if messages may only be in flight together where they were started together, as those of devices."""

    def exchange(self, moves: Sequence[WireMessage]) -> Sequence[Pending]:
        """Start messages, none of which waits for another; never blocks for another rank. Return one Pending for each,
        or (`in_batches`) one for all. Messages between the same two members go in the order of the calls, and must not
        be touched until they have been waited for."""


def collectives_of(schedule: Schedule) -> list[Collective]:
    """Every distinct collective of a schedule, in order of appearance; equal ones are one, as in its file."""
    return list(dict.fromkeys(_each_once(schedule)))


def numbers_of(schedule: Schedule) -> dict[int, int]:
    """Return the number of each op's collective among the distinct ones, by the op's number."""
    number = {op: number for number, op in enumerate(collectives_of(schedule))}
    return {op.number: number[op] for op in _each_once(schedule)}


def _each_once(schedule: Schedule) -> list[Collective]:
    return [op for op in schedule.ops if isinstance(op, Collective)]


def channel_of(op: Collective | Exchange, mesh: Mesh) -> Channel:
    """The channel that a collective or an exchange of a schedule uses."""
    if isinstance(op, Exchange):
        return Channel(op.comm, op.lane, (op.axis,), tuple(sorted(op.ends)))
    return Channel(op.comm, op.lane, mesh.live(op.axes))


def channels_of(schedule: Schedule) -> list[Channel]:
    """The channels that a schedule uses, sorted."""
    ops = (op for op in schedule.ops if not isinstance(op, Compute))
    return sorted({channel_of(op, schedule.mesh) for op in ops})


def peer_of(op: Exchange, mesh: Mesh, rank: int) -> int:
    """The rank at the other end of an exchange, which has all other coordinates in common."""
    at = coordinates(mesh, rank)[op.axis]
    assert at in op.ends, f"{op.name}: rank {rank} is at none of its ends"
    other = op.ends[0] if at == op.ends[1] else op.ends[1]
    stride = math.prod(size for _, size in mesh.axes[mesh.names.index(op.axis) + 1 :])
    return rank + (other - at) * stride


def calls_by_group(schedule: Schedule, programs: Programs) -> Iterator[tuple[list[tuple[int, ...]], list[list[int]]]]:
    """(groups of ranks, per role the calls of one communicator): the k-th call is the same one on all ranks of a
    group."""
    calls: dict[Channel, list[list[int]]] = {}
    for role, program in enumerate(programs.of_roles):
        for index, op in enumerate(program.ops):
            if not isinstance(op, Compute):
                channel = channel_of(op, schedule.mesh)
                calls.setdefault(channel, [[] for _ in programs.of_roles])[role].append(index)
    for channel, indices in calls.items():
        groups = channel.groups(schedule.mesh)
        yield [group for group in groups if len(group) > 1 or not channel.ends], indices
