"""The torch transport: real processes over gloo, NCCL or RCCL, one process group per channel and group or pair."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.program import Collective, CollectiveKind, Exchange, Mesh, PartialOp, Schedule
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ranks.gloo_device import shared_device
from simfrontier_real.ranks.transport import (
    Channel,
    ExchangeChannel,
    channel_of,
    channels_of,
    exchange_channel_of,
    exchange_channels_of,
    peer_of,
)
from simfrontier_real.ranks.wire import PendingMessage, TorchWire, WireMessage
from simfrontier_real.ranks.world import World


@dataclass(frozen=True, slots=True)
class TorchPending:
    """A collective of torch that has started; gloo's must be waited for, nccl's makes the current stream wait."""

    work: Any
    result: Array

    def is_done(self) -> bool:
        return False

    def wait(self) -> Array:
        self.work.wait()
        return self.result


@dataclass(frozen=True, slots=True)
class ExchangePending:
    """Messages between two ranks that have started; `room` is what is received into."""

    moving: list[PendingMessage]
    room: Array | None

    def is_done(self) -> bool:
        return False

    def wait(self) -> Array | None:
        for moving in self.moving:
            moving.wait()
        return self.room


class TorchTransport:
    """One rank's process groups. Built by all ranks together; groups are shared by schedules that ask for the same."""

    def __init__(self, world: World, timeout_s: float) -> None:
        self._world, self._timeout_s = world, timeout_s
        self._groups: dict[tuple[str, str, tuple[tuple[int, ...], ...]], Any] = {}
        self._channels: dict[Channel, tuple[Any, tuple[int, ...]]] = {}
        self._exchange_channels: dict[ExchangeChannel, TorchWire] = {}
        self._mesh: Mesh | None = None

    def prepare(self, schedule: Schedule) -> None:
        """Make the process groups of a schedule; every rank calls this with the same schedule."""
        self._channels, self._exchange_channels, self._mesh = {}, {}, schedule.mesh
        for channel in channels_of(schedule):
            groups = [tuple(group) for group in schedule.mesh.groups(channel.axes).tolist()]
            self._channels[channel] = self._group(channel.comm, channel.lane, groups)
        for one in exchange_channels_of(schedule):
            members = self._group(one.comm, one.lane, one.pairs(schedule.mesh))
            self._exchange_channels[one] = TorchWire(*members)

    def _group(self, comm: str, lane: str, groups: list[tuple[int, ...]]) -> tuple[Any, tuple[int, ...]]:
        """The process group of this rank, and its members. `groups` hold every rank once: torch names a group by how
        many its members have made before, so all ranks always make as many."""
        members = next(group for group in groups if self._world.rank in group)
        key = (comm, lane, tuple(groups))
        if key not in self._groups:
            self._groups[key] = self._new_group(members)
        return self._groups[key], members

    def wire(self, channel: Channel) -> TorchWire:
        """This rank's end of a channel's group, for explicit transfers; all members call this, in the same order."""
        group, members = self._channels[channel]
        if self._world.backend == "nccl":
            import torch
            import torch.distributed as dist

            # a group's first call must be of all its members, which a batch of transfers need not be
            dist.all_reduce(torch.zeros(1, device=self._world.device), group=group)
        return TorchWire(group, members)

    def _new_group(self, members: tuple[int, ...]) -> Any:
        import torch
        import torch.distributed as dist

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

    def begin(self, op: Collective, message: Array, reduction: PartialOp = "sum") -> TorchPending:
        assert self._mesh is not None, "prepare comes first"
        return self.call(channel_of(op, self._mesh), op.wire_kind, message, reduction)

    def exchange(self, op: Exchange, message: Array | None, room: Array | None) -> ExchangePending:
        assert self._mesh is not None, "prepare comes first"
        own_rank = self._world.rank
        peer = int(peer_of(op, self._mesh, own_rank) > own_rank)  # the partners are in the order of their ranks
        moves = [] if room is None else [WireMessage(peer, False, room)]
        moves += [] if message is None else [WireMessage(peer, True, message.contiguous())]
        return ExchangePending(self._exchange_channels[exchange_channel_of(op)].exchange(moves), room)

    def call(
        self, channel: Channel, kind: CollectiveKind, message: Array, reduction: PartialOp = "sum"
    ) -> TorchPending:
        """Start a collective of one message on a channel."""
        import torch
        import torch.distributed as dist

        group, members = self._channels[channel][0], len(self._channels[channel][1])
        message = message.contiguous()
        match kind:
            case "all_gather":
                out = torch.empty((members * message.shape[0],), dtype=message.dtype, device=message.device)
                gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # its name before 2.13
                work = gather(out, message, group=group, async_op=True)
                return TorchPending(work, out.view(members, -1))
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
        return TorchPending(work, out)
