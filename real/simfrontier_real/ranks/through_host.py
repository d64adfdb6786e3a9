"""Messages of buffers on a device over gloo: copied to the host's memory, sent from there, and copied back.

gloo carries the host's memory. torch lets it take CUDA tensors for broadcasts and all-reduces and no others, so every
message is copied here, explicitly and in the same way. Copies are made on the current stream, for which the thread that
asks for them waits, and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from simfrontier.core.program import Collective, Exchange, PartialOp, Schedule
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ranks.processes import TorchTransport
from simfrontier_real.ranks.transport import Channel, Pending
from simfrontier_real.ranks.wire import PendingMessage, Wire, WireMessage

HOST = "cpu"  # as torch calls the host's memory


@dataclass(frozen=True, slots=True)
class HostPending:
    """A collective or an exchange that has started in the host's memory; `deliver` takes its result to the device."""

    pending: Pending
    deliver: Callable[[Array], Array]

    def is_done(self) -> bool:
        return self.pending.is_done()

    def wait(self) -> Array:
        return self.deliver(self.pending.wait())


class HostTransport:
    """One rank's transport of buffers on `device`: every message goes through the host's memory, by `plain`."""

    def __init__(self, plain: TorchTransport, device: str) -> None:
        self._plain, self._device = plain, device

    def prepare(self, schedule: Schedule) -> None:
        """As `TorchTransport.prepare`."""
        self._plain.prepare(schedule)

    def wire(self, channel: Channel) -> HostWire:
        """As `TorchTransport.wire`."""
        return HostWire(self._plain.wire(channel))

    def begin(self, op: Collective, message: Array, reduction: PartialOp = "sum") -> HostPending:
        pending = self._plain.begin(op, copied(message, HOST), reduction)
        return HostPending(pending, lambda result: copied(result, self._device))

    def exchange(self, op: Exchange, message: Array | None, room: Array | None) -> HostPending:
        sent = None if message is None else copied(message, HOST)
        pending = self._plain.exchange(op, sent, None if room is None else host_room(room))
        return HostPending(pending, lambda result: None if room is None else room.copy_(result))


class HostWire:
    """One member's end of a channel's group for buffers on a device."""

    def __init__(self, plain: Wire) -> None:
        self._plain = plain

    def send(self, peer: int, values: Array) -> PendingMessage:
        return self._plain.send(peer, copied(values, HOST))

    def receive(self, peer: int, values: Array) -> PendingMessage:
        room = host_room(values)
        return HostPendingMessage(self._plain.receive(peer, room), room, values)

    def exchange(self, moves: Sequence[WireMessage]) -> list[PendingMessage]:
        return [(self.send if move.is_send else self.receive)(move.peer, move.values) for move in moves]

    def watch(self, advance: Callable[[], bool]) -> None:
        self._plain.watch(advance)

    def settle(self) -> None:
        self._plain.settle()


@dataclass(frozen=True, slots=True)
class HostPendingMessage:
    """A message that arrives in `room` and is then copied to where it belongs."""

    moving: PendingMessage
    room: Array
    values: Array

    def is_done(self) -> bool:
        return self.moving.is_done()

    def wait(self) -> None:
        self.moving.wait()
        self.values.copy_(self.room)


def copied(values: Array, device: str) -> Any:
    """A copy of a tensor on a device, or in the host's memory, whole when this returns."""
    import torch

    return torch.empty(values.shape, dtype=values.dtype, device=device).copy_(values)


def host_room(values: Array) -> Any:
    """Room in the host's memory for what is to become `values`."""
    import torch

    return torch.empty(values.shape, dtype=values.dtype, device=HOST)
