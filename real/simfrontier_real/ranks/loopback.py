"""The loopback transport: all ranks in one process, messages by plain numpy; sums in the order of the members."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from simfrontier.core.program import Collective, CollectiveKind, Exchange, Mesh, PartialOp
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ranks.transport import (
    Channel,
    ExchangeChannel,
    channel_of,
    exchange_channel_of,
    group_of,
    peer_of,
)
from simfrontier_real.ranks.wire import Mailboxes, Wire

CallKey = tuple[Channel, int, int]  # channel, number of its group, how many calls its group made before
ExchangeKey = tuple[ExchangeChannel, frozenset[int], int]  # channel, partners, how many exchanges they made before


@dataclass
class LoopbackWorld:
    """What the ranks of one mesh have in common: the messages that wait for the other members of a group."""

    mesh: Mesh
    waiting: dict[CallKey, dict[int, tuple[CollectiveKind, Array]]] = field(default_factory=dict)
    results: dict[CallKey, dict[int, Array]] = field(default_factory=dict)
    boxes: dict[Channel, Mailboxes] = field(default_factory=lambda: defaultdict(Mailboxes))
    sent: dict[tuple[ExchangeKey, int], Array | None] = field(default_factory=dict)  # by sender, until it is taken

    def wires(self, rank: int) -> Callable[[Channel], Wire]:
        """One rank's ends of the channels, for explicit transfers."""
        return lambda channel: self.boxes[channel].wire(rank, self.members(channel, rank)[1])

    def members(self, channel: Channel, rank: int) -> tuple[int, tuple[int, ...]]:
        """The number of a rank's group on a channel, and its members."""
        return group_of(self.mesh, channel.axes, rank)

    def transport(self, rank: int) -> LoopbackTransport:
        """One rank's end."""
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
        """Add a message to a call; the last to come makes everybody's result."""
        present = self.waiting.setdefault(call_key, {})
        present[rank] = (kind, message)
        if len(present) < len(members):
            return
        kinds = {member: present[member][0] for member in members}
        assert len(set(kinds.values())) == 1, f"{call_key[0].comm}: the members call {kinds}"
        del self.waiting[call_key]
        self.results[call_key] = _combined(kind, members, [present[member][1] for member in members], reduction)


@dataclass
class LoopbackTransport:
    """One rank's end of a loopback world."""

    world: LoopbackWorld
    rank: int
    calls: dict[Channel | ExchangeChannel, int] = field(default_factory=lambda: defaultdict(int))
    groups: dict[Channel, tuple[int, tuple[int, ...]]] = field(default_factory=dict)

    def begin(self, op: Collective, message: Array, reduction: PartialOp = "sum") -> LoopbackPending:
        return self.call(channel_of(op, self.world.mesh), op.wire_kind, message, reduction)

    def exchange(self, op: Exchange, message: Array | None, room: Array | None) -> ExchangePending:
        channel, peer = exchange_channel_of(op), peer_of(op, self.world.mesh, self.rank)
        exchange_key = (channel, frozenset((self.rank, peer)), self.calls[channel])
        self.calls[channel] += 1
        self.world.sent[exchange_key, self.rank] = None if message is None else message.copy()
        return ExchangePending(self.world, exchange_key, peer, room)

    def call(
        self, channel: Channel, kind: CollectiveKind, message: Array, reduction: PartialOp = "sum"
    ) -> LoopbackPending:
        """Start a collective of one message on a channel."""
        if channel not in self.groups:
            self.groups[channel] = self.world.members(channel, self.rank)
        number, members = self.groups[channel]
        call_key = (channel, number, self.calls[channel])
        self.calls[channel] += 1
        self.world.join(call_key, members, self.rank, kind, message, reduction)
        return LoopbackPending(self.world, call_key, self.rank)


@dataclass(frozen=True, slots=True)
class LoopbackPending:
    """A call that is done once all members have come."""

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


@dataclass(slots=True)
class ExchangePending:
    """An exchange that is done once the other end has started it too, in whichever direction messages go."""

    world: LoopbackWorld
    exchange_key: ExchangeKey
    peer: int
    room: Array | None

    def is_done(self) -> bool:
        return (self.exchange_key, self.peer) in self.world.sent

    def wait(self) -> Array | None:
        arrived = self.world.sent.pop((self.exchange_key, self.peer))
        sizes = [None if each is None else each.shape for each in (arrived, self.room)]
        comm = self.exchange_key[0].comm
        assert sizes[0] == sizes[1], f"{comm}: rank {self.peer} sends {sizes[0]}, awaited {sizes[1]}"
        return arrived


def _combined(
    kind: CollectiveKind, members: tuple[int, ...], messages: list[Array], reduction: PartialOp
) -> dict[int, Array]:
    import numpy as np

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
