"""The seam under lowered collectives: messages between two members of a group, by torch or within one process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from simfrontier_real.ops.arrays import Array


class WireMessage(NamedTuple):
    """One message: `values` to the member `peer`, or from it into `values`."""

    peer: int
    is_send: bool
    values: Array


class PendingMessage(Protocol):
    """A message in transit."""

    def is_done(self) -> bool:
        """Whether `wait` would return at once (False where that cannot be known without waiting)."""

    def wait(self) -> None:
        """Until it has been sent, or has arrived."""


class Wire(Protocol):
    """One member's end of one channel's group; messages between the same two members go in the order of the calls.

    Members are numbered in the group's order. What is being sent or received must not be touched until it is waited
    for.
    """

    def send(self, peer: int, values: Array) -> PendingMessage:
        """Start to send; never blocks for another rank."""

    def receive(self, peer: int, values: Array) -> PendingMessage:
        """Start to receive; never blocks for another rank."""

    def exchange(self, moves: Sequence[WireMessage]) -> list[PendingMessage]:
        """Start all at once, as devices need it: none of them waits for another."""

    def watch(self, advance: Callable[[], bool]) -> None:
        """A collective over this wire begins: `advance` goes on as far as it can and returns whether it has ended. Only
        wires whose other ends live in this process need it."""

    def settle(self) -> None:
        """Let the other ends go on, where they live in this process."""


# ── torch ──


class TorchWire:
    """Messages of torch.distributed, gloo's and nccl's alike, in a process group of their own (so no tags).

    gloo's point-to-point work never becomes complete by looking at it, so nothing here counts as done before it is
    waited for.
    """

    def __init__(self, group: Any, members: tuple[int, ...]) -> None:
        self._group, self._members = group, members

    def send(self, peer: int, values: Array) -> PendingMessage:
        # what dist.isend calls once it has turned a rank of the world into the group's: members stand in that order
        return TorchPendingMessage(self._group.send([values], peer, 0))

    def receive(self, peer: int, values: Array) -> PendingMessage:
        return TorchPendingMessage(self._group.recv([values], peer, 0))

    def exchange(self, moves: Sequence[WireMessage]) -> list[PendingMessage]:
        import torch.distributed as dist

        calls = [
            dist.P2POp(
                dist.isend if move.is_send else dist.irecv,
                move.values,
                self._members[move.peer],  # of the world
                group=self._group,
            )
            for move in moves
        ]
        return [TorchPendingMessage(work) for work in dist.batch_isend_irecv(calls)]

    def watch(self, advance: Callable[[], bool]) -> None:
        """The other ends are in other processes."""

    def settle(self) -> None:
        """The other ends go on by themselves."""


@dataclass(frozen=True, slots=True)
class TorchPendingMessage:
    """A message of torch in transit."""

    work: Any

    def is_done(self) -> bool:
        return False

    def wait(self) -> None:
        self.work.wait()


# ── one process ──

Box = tuple[int, int]  # from which rank, to which


@dataclass
class Mailboxes:
    """All messages of one channel, all ranks in one process: numbered per ordered pair, so that whoever comes first
    waits for the other's."""

    sent: dict[tuple[Box, int], Array] = field(default_factory=dict)
    num_sent: dict[Box, int] = field(default_factory=lambda: defaultdict(int))
    num_received: dict[Box, int] = field(default_factory=lambda: defaultdict(int))
    watched: list[Callable[[], bool]] = field(default_factory=list)
    num_moved: int = 0  # messages sent or taken

    def wire(self, rank: int, members: tuple[int, ...]) -> LoopbackWire:
        """One rank's end."""
        return LoopbackWire(self, rank, members)

    def settle(self) -> None:
        """Advance every collective that has started until none can go on."""
        before = -1
        while before != self.num_moved:
            before = self.num_moved
            self.watched = [advance for advance in self.watched if not advance()]


@dataclass(frozen=True, slots=True)
class LoopbackWire:
    """One rank's end of the mailboxes. Messages are copied when they are sent, so sending is done at once."""

    boxes: Mailboxes
    rank: int
    members: tuple[int, ...]

    def send(self, peer: int, values: Array) -> PendingMessage:
        box = (self.rank, self.members[peer])
        self.boxes.sent[box, self.boxes.num_sent[box]] = values.copy()
        self.boxes.num_sent[box] += 1
        self.boxes.num_moved += 1
        return DeliveredMessage()

    def receive(self, peer: int, values: Array) -> PendingMessage:
        box = (self.members[peer], self.rank)
        self.boxes.num_received[box] += 1
        return AwaitedMessage(self.boxes, box, self.boxes.num_received[box] - 1, values)

    def exchange(self, moves: Sequence[WireMessage]) -> list[PendingMessage]:
        return [(self.send if move.is_send else self.receive)(move.peer, move.values) for move in moves]

    def watch(self, advance: Callable[[], bool]) -> None:
        self.boxes.watched.append(advance)

    def settle(self) -> None:
        self.boxes.settle()


@dataclass(frozen=True, slots=True)
class DeliveredMessage:
    """A message that was sent within the process."""

    def is_done(self) -> bool:
        return True

    def wait(self) -> None:
        """It is done."""


@dataclass(frozen=True, slots=True)
class AwaitedMessage:
    """A message from within the process, into `values`."""

    boxes: Mailboxes
    box: Box
    number: int
    values: Array

    def is_done(self) -> bool:
        return (self.box, self.number) in self.boxes.sent

    def wait(self) -> None:
        arrived = self.boxes.sent.pop((self.box, self.number))
        self.boxes.num_moved += 1
        assert arrived.shape == self.values.shape, f"sent {arrived.shape}, received as {self.values.shape}"
        self.values[...] = arrived
