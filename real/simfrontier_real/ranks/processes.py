"""Torch transport: processes over gloo, NCCL or RCCL, with one process group per channel and group (or pair) of
ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.program import Collective, CollectiveKind, Exchange, Mesh, PartialOp, Schedule
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ranks.transport import Channel, Pending, WireMessage, channel_of, channels_of, peer_of, shifted
from simfrontier_real.ranks.world import World, shared_device

HOST = "cpu"  # as torch calls the host's memory


@dataclass(frozen=True, slots=True)
class TorchPending:
    """Pending torch operation: one of gloo is waited for by the host, one of nccl by the current stream. `deliver`
    copies a message received in host memory to the device, on the current stream."""

    works: Sequence[Any]
    result: Array | None
    deliver: Callable[[Any], Any] = lambda result: result

    def is_done(self) -> bool:
        return False

    def wait(self) -> Any:
        for work in self.works:
            work.wait()
        return self.deliver(self.result)


@dataclass(frozen=True, slots=True)
class TorchWire:
    """Wire of one rank on a process group, which is used for nothing else, so that messages need no tags. With
    `staged`, messages are copied through host memory."""

    group: Any
    members: tuple[int, ...]
    staged: bool
    in_batches: bool

    def exchange(self, moves: Sequence[WireMessage]) -> list[TorchPending]:
        sides = [self._side(move) for move in moves]
        calls = [
            dist.P2POp(
                dist.isend if move.is_send else dist.irecv,
                values,
                self.members[move.peer],  # rank in the world
                group=self.group,
            )
            for move, (values, _) in zip(moves, sides, strict=True)
        ]
        works = dist.batch_isend_irecv(calls) if calls else []
        if not self.in_batches:
            return [TorchPending([work], None, deliver) for work, (_, deliver) in zip(works, sides, strict=True)]
        return [TorchPending(works, None)] if works else []

    def _side(self, move: WireMessage) -> tuple[Array, Callable[[Any], Any]]:
        """Return the tensor that torch sends or receives for a message, and the function to call on its arrival."""
        if not self.staged:
            return move.values, lambda _: None
        if move.is_send:
            return copied(move.values, HOST), lambda _: None
        room = empty_like(move.values, HOST)
        return room, lambda _: move.values.copy_(room)


class TorchTransport:
    """Transport of one rank over torch process groups. All ranks build the groups together; schedules with equal
    channels share them.

    gloo communicates host memory. torch accepts CUDA tensors with gloo only for broadcast and all-reduce, so messages
    of device buffers (`staged_for`) are copied to host memory, sent from there and copied back. The copies run on the
    current stream; the thread that requests them waits for this stream only.
    """

    def __init__(self, world: World, timeout_s: float, staged_for: str | None = None) -> None:
        self._world, self._timeout_s, self._staged_for = world, timeout_s, staged_for
        self._groups: dict[tuple[str, str, tuple[tuple[int, ...], ...]], Any] = {}
        self._wires: dict[Channel, TorchWire] = {}
        self._mesh: Mesh | None = None

    def prepare(self, schedule: Schedule) -> None:
        """Create the process groups of a schedule; every rank calls this with the same schedule."""
        self._mesh = schedule.mesh
        self._wires = {channel: self._made(channel, channel.groups(schedule.mesh)) for channel in channels_of(schedule)}

    def _made(self, channel: Channel, groups: list[tuple[int, ...]]) -> TorchWire:
        """Create the process groups of a channel and return this rank's. Every rank must be in exactly one of `groups`:
        torch names a group by the number of groups that its ranks have created before, so all ranks must create equally
        many."""
        members = next(group for group in groups if self._world.rank in group)
        key = (channel.comm, channel.lane, tuple(groups))
        if key not in self._groups:
            self._groups[key] = self._new_group(members)
        return TorchWire(self._groups[key], members, self._staged_for is not None, self._world.backend == "nccl")

    def wire(self, channel: Channel) -> TorchWire:
        """Return this rank's wire on a channel, for explicit transfers; all ranks of the group call this in the same
        order."""
        wire = self._wires[channel]
        if self._world.backend == "nccl":
            # a group's first call must be of all its members, which a batch of transfers need not be
            dist.all_reduce(torch.zeros(1, device=self._world.device), group=wire.group)
        return wire

    def _new_group(self, members: tuple[int, ...]) -> Any:
        # members are in the order of the channel's axes, which need not be that of the ranks
        order: dict[str, Any] = {} if list(members) == sorted(members) else {"sort_ranks": False}
        try:
            with shared_device():
                return dist.new_group(
                    list(members),
                    timeout=timedelta(seconds=self._timeout_s),
                    backend=self._world.backend,
                    use_local_synchronization=True,
                    **order,
                )
        except TypeError:
            raise SimfrontierError(
                f"torch {torch.__version__} only makes groups with ascending ranks, but a collective needs {members}; "
                "allowed: torch 2.13, or a plan whose nesting follows the mesh"
            ) from None

    def begin(self, op: Collective, message: Array, reduction: PartialOp = "sum") -> Pending:
        assert self._mesh is not None, "prepare comes first"
        if op.turns:
            wire = self._wires[channel_of(op, self._mesh)]
            message = message.contiguous()
            return shifted(wire, wire.members, self._world.rank, message, empty_like(message, str(message.device)))
        return self.call(channel_of(op, self._mesh), op.wire_kind, message, reduction)

    def exchange(self, op: Exchange, message: Array | None, room: Array | None) -> TorchPending:
        assert self._mesh is not None, "prepare comes first"
        own_rank = self._world.rank
        peer = int(peer_of(op, self._mesh, own_rank) > own_rank)  # the partners are in the order of their ranks
        moves = [] if room is None else [WireMessage(peer, False, room)]
        moves += [] if message is None else [WireMessage(peer, True, message.contiguous())]
        return TorchPending(self._wires[channel_of(op, self._mesh)].exchange(moves), room)

    def call(
        self, channel: Channel, kind: CollectiveKind, message: Array, reduction: PartialOp = "sum"
    ) -> TorchPending:
        """Start a collective of one message on a channel."""
        group, members = self._wires[channel].group, len(self._wires[channel].members)
        message = message.contiguous() if self._staged_for is None else copied(message, HOST)
        match kind:
            case "all_gather":
                out = torch.empty((members * message.shape[0],), dtype=message.dtype, device=message.device)
                gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # its name before 2.13
                work = gather(out, message, group=group, async_op=True)
                out = out.view(members, -1)
            case "reduce_scatter":
                out = torch.empty((message.shape[1],), dtype=message.dtype, device=message.device)
                scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
                work = scatter(out, message.view(-1), group=group, async_op=True)
            case "all_to_all":
                out = torch.empty_like(message)
                work = dist.all_to_all_single(out, message, group=group, async_op=True)
            case "all_reduce":
                out = message  # in place: the message is ours to write
                operation = dist.ReduceOp.MAX if reduction == "max" else dist.ReduceOp.SUM
                work = dist.all_reduce(out, operation, group=group, async_op=True)
        if self._staged_for is None:
            return TorchPending([work], out)
        return TorchPending([work], out, partial(copied, device=self._staged_for))


def empty_like(values: Array, device: str) -> Any:
    """Return an uninitialised tensor like `values` on a device, or in the host's memory."""
    return torch.empty(values.shape, dtype=values.dtype, device=device)


def copied(values: Array, device: str) -> Any:
    """Return a copy of a tensor on a device or in host memory; the copy is complete on return."""
    return empty_like(values, device).copy_(values)
