"""Loopback transport: all ranks of a schedule in one process, with numpy messages, and sums in the order of the
ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.collectives import LoweredSchedule
from simfrontier.core.program import Collective, CollectiveKind, Exchange, Mesh, PartialOp, Schedule
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.executor import Executor, StepTimes
from simfrontier_real.ops.lanes import InlineLanes
from simfrontier_real.ops.op_runner import LaneStep
from simfrontier_real.ranks.lowered import LoweredTransport
from simfrontier_real.ranks.transport import (
    Channel,
    Pending,
    Transport,
    WireMessage,
    channel_of,
    group_of,
    peer_of,
    shifted,
)

CallKey = tuple[Channel, int, int]  # channel, number of its group, how many calls its group made before
Mailbox = tuple[Channel, int, int]  # channel, from which rank, to which


@dataclass
class LoopbackWorld:
    """State shared by all ranks of a mesh: messages waiting for the other ranks of a group, or for their receiver.
    `num_started` counts all collective calls and sends."""

    mesh: Mesh
    waiting: dict[CallKey, dict[int, tuple[CollectiveKind, Array]]] = field(default_factory=dict)
    results: dict[CallKey, dict[int, Array]] = field(default_factory=dict)
    mail: dict[tuple[Mailbox, int], Array | None] = field(default_factory=dict)  # numbered by mailbox
    num_sent: dict[Mailbox, int] = field(default_factory=lambda: defaultdict(int))
    num_received: dict[Mailbox, int] = field(default_factory=lambda: defaultdict(int))
    num_started: int = 0

    def transport(self, rank: int) -> LoopbackTransport:
        """Return the transport of one rank."""
        return LoopbackTransport(self, rank)

    def join(
        self,
        call_key: CallKey,
        members: tuple[int, ...],
        rank: int,
        kind: CollectiveKind,
        message: Array,
        reduction: PartialOp,
    ) -> None:
        """Add a rank's message to a collective call; the last rank of the group to join computes the results of all
        ranks."""
        self.num_started += 1
        present = self.waiting.setdefault(call_key, {})
        present[rank] = (kind, message)
        if len(present) < len(members):
            return
        kinds = {member: present[member][0] for member in members}
        assert len(set(kinds.values())) == 1, f"{call_key[0].comm}: the members call {kinds}"
        del self.waiting[call_key]
        self.results[call_key] = _combined(kind, members, [present[member][1] for member in members], reduction)

    def send(self, box: Mailbox, message: Array | None) -> None:
        """Put a copy of a message into a mailbox (None: no message is sent)."""
        self.num_started += 1
        self.mail[box, self.num_sent[box]] = None if message is None else message.copy()
        self.num_sent[box] += 1

    def receive(self, box: Mailbox, room: Array | None) -> MailPending:
        """Receive the next message of a mailbox."""
        self.num_received[box] += 1
        return MailPending(self, (box, self.num_received[box] - 1), room)


@dataclass
class LoopbackTransport:
    """Transport of one rank in a loopback world."""

    world: LoopbackWorld
    rank: int
    calls: dict[Channel, int] = field(default_factory=lambda: defaultdict(int))
    groups: dict[Channel, tuple[int, tuple[int, ...]]] = field(default_factory=dict)

    def begin(self, op: Collective, message: Array, reduction: PartialOp = "sum") -> Pending:
        if op.turns:
            wire = self.wire(channel_of(op, self.world.mesh))
            return shifted(wire, wire.members, self.rank, message, np.empty_like(message))
        return self.call(channel_of(op, self.world.mesh), op.wire_kind, message, reduction)

    def exchange(self, op: Exchange, message: Array | None, room: Array | None) -> MailPending:
        channel, peer = channel_of(op, self.world.mesh), peer_of(op, self.world.mesh, self.rank)
        self.world.send((channel, self.rank, peer), message)
        return self.world.receive((channel, peer, self.rank), room)

    def call(
        self, channel: Channel, kind: CollectiveKind, message: Array, reduction: PartialOp = "sum"
    ) -> LoopbackPending:
        """Start a collective of one message on a channel."""
        number, members = self._group(channel)
        call_key = (channel, number, self.calls[channel])
        self.calls[channel] += 1
        self.world.join(call_key, members, self.rank, kind, message, reduction)
        return LoopbackPending(self.world, call_key, self.rank)

    def wire(self, channel: Channel) -> LoopbackWire:
        """Return this rank's wire on a channel, for explicit transfers."""
        return LoopbackWire(self.world, channel, self.rank, self._group(channel)[1])

    def _group(self, channel: Channel) -> tuple[int, tuple[int, ...]]:
        if channel not in self.groups:
            self.groups[channel] = group_of(self.world.mesh, channel.axes, self.rank)
        return self.groups[channel]


@dataclass(frozen=True, slots=True)
class LoopbackPending:
    """Pending collective call, done when all ranks of the group have joined."""

    world: LoopbackWorld
    call_key: CallKey
    rank: int

    def is_done(self) -> bool:
        return self.call_key in self.world.results

    def wait(self) -> Array:
        mine = self.world.results[self.call_key]
        result = mine.pop(self.rank)
        if not mine:
            del self.world.results[self.call_key]
        return result


@dataclass(frozen=True, slots=True)
class MailPending:
    """Pending receive, done when the message has been sent; the message is copied into `room` (None: no data)."""

    world: LoopbackWorld
    key: tuple[Mailbox, int]
    room: Array | None

    def is_done(self) -> bool:
        return self.key in self.world.mail

    def wait(self) -> Array | None:
        arrived = self.world.mail.pop(self.key)
        sizes = [None if each is None else each.shape for each in (arrived, self.room)]
        assert sizes[0] == sizes[1], f"{self.key}: sent {sizes[0]}, awaited {sizes[1]}"
        if self.room is not None:
            self.room[...] = arrived
        return self.room


@dataclass(frozen=True, slots=True)
class SentPending:
    """Pending send, which is done immediately."""

    def is_done(self) -> bool:
        return True

    def wait(self) -> None:
        """Do nothing: the message has been sent."""


@dataclass(frozen=True, slots=True)
class LoopbackWire:
    """Wire of one rank: its access to the mailboxes of a channel."""

    world: LoopbackWorld
    channel: Channel
    rank: int
    members: tuple[int, ...]
    in_batches: bool = False

    def exchange(self, moves: Sequence[WireMessage]) -> list[Pending]:
        return [self._started(move, self.members[move.peer]) for move in moves]

    def _started(self, move: WireMessage, peer: int) -> Pending:
        if not move.is_send:
            return self.world.receive((self.channel, peer, self.rank), move.values)
        self.world.send((self.channel, self.rank, peer), move.values)
        return SentPending()


def _combined(
    kind: CollectiveKind, members: tuple[int, ...], messages: list[Array], reduction: PartialOp
) -> dict[int, Array]:
    sizes = {message.shape for message in messages}
    assert len(sizes) == 1, f"{kind}: the members send {sizes}"
    if kind == "all_gather":
        return {member: np.stack(messages) for member in members}
    if kind == "all_to_all":
        return {member: np.stack([message[place] for message in messages]) for place, member in enumerate(members)}
    total = messages[0].copy()
    for message in messages[1:]:
        total = np.maximum(total, message) if reduction == "max" else total + message
    if kind == "all_reduce":
        return {member: total.copy() for member in members}
    return {member: total[place].copy() for place, member in enumerate(members)}


class RanksInOneProcess:
    """All ranks of a schedule over one loopback world, whose steps advance in turn; `make` creates the step of a rank
    from its number and its transport. With `lowered`, collectives use explicit transfers."""

    def __init__(
        self,
        schedule: Schedule,
        make: Callable[[int, Transport], LaneStep],
        lowered: LoweredSchedule | None = None,
    ) -> None:
        self.world = LoopbackWorld(schedule.mesh)
        self.steps: list[LaneStep] = []
        for rank in range(schedule.mesh.num_ranks):
            transport: Any = self.world.transport(rank)
            if lowered is not None:
                transport = LoweredTransport(schedule, lowered, rank, transport.wire, transport)
            self.steps.append(make(rank, transport))
        self.executors = [Executor(step, InlineLanes(step)) for step in self.steps]

    def run_step(self) -> list[StepTimes]:
        """Run one step on all ranks. Raises SimfrontierError with a table of the ranks if none can proceed."""
        for executor in self.executors:
            executor.begin()
        waiting = dict(enumerate(self.executors))
        while waiting:
            before = self.world.num_started
            moved = [executor.advance(0.0) for executor in waiting.values()]
            waiting = {rank: executor for rank, executor in waiting.items() if not executor.is_finished}
            if waiting and not any(moved) and self.world.num_started == before:
                lines = [f"rank {rank}, {line}" for rank, executor in waiting.items() for line in executor.table()]
                raise SimfrontierError("stuck: " + "; ".join(lines[:8]))
        return [executor.end() for executor in self.executors]
