"""The torch transport: real processes over gloo, NCCL or RCCL, one process group per channel and group."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from simfrontier.errors import SimfrontierError
from simfrontier.schedule.ir import Collective, CollectiveKind, Schedule
from simfrontier.schedule.mesh import Mesh
from simfrontier_real.arrays import Array
from simfrontier_real.gloo_device import shared_device
from simfrontier_real.transport import Channel, channel_of, channels_of, wire_kind
from simfrontier_real.wire import TorchWire
from simfrontier_real.world import World


@dataclass(frozen=True, slots=True)
class TorchPending:
    """A collective of torch under way; gloo's must be waited for, nccl's makes the current stream wait."""

    work: Any
    result: Array

    def is_done(self) -> bool:
        return False

    def wait(self) -> Array:
        self.work.wait()
        return self.result


class TorchTransport:
    """One rank's process groups. Built by all ranks together; groups are shared by schedules that ask for the same."""

    def __init__(self, world: World, timeout_s: float) -> None:
        self._world, self._timeout_s = world, timeout_s
        self._groups: dict[tuple[str, str, tuple[int, ...]], Any] = {}
        self._channels: dict[Channel, tuple[Any, tuple[int, ...]]] = {}
        self._mesh: Mesh | None = None

    def prepare(self, schedule: Schedule) -> None:
        """Make the process groups of a schedule; every rank calls this with the same schedule."""
        self._channels, self._mesh = {}, schedule.mesh
        for channel in channels_of(schedule):
            members = self._members(channel, schedule.mesh)
            key = (channel.comm, channel.lane, members)
            if key not in self._groups:
                self._groups[key] = self._new_group(members)
            self._channels[channel] = (self._groups[key], members)

    def wire(self, channel: Channel) -> TorchWire:
        """This rank's end of a channel's group, for explicit transfers; all members call this, in the same order."""
        group, members = self._channels[channel]
        if self._world.device != "cpu":
            import torch
            import torch.distributed as dist

            # nccl: a group's first call must be of all its members, which a batch of transfers need not be
            dist.all_reduce(torch.zeros(1, device=self._world.device), group=group)
        return TorchWire(group, members)

    def _members(self, channel: Channel, mesh: Mesh) -> tuple[int, ...]:
        table = mesh.groups(channel.axes)
        return tuple(table[int((table == self._world.rank).any(axis=1).argmax())].tolist())

    def _new_group(self, members: tuple[int, ...]) -> Any:
        import torch
        import torch.distributed as dist

        # members stand in the order of the channel's axes, which need not be that of the ranks
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

    def begin(self, op: Collective, message: Array) -> TorchPending:
        assert self._mesh is not None, "prepare comes first"
        return self.call(channel_of(op, self._mesh), wire_kind(op), message)

    def call(self, channel: Channel, kind: CollectiveKind, message: Array) -> TorchPending:
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
                work = dist.all_reduce(out, group=group, async_op=True)
        return TorchPending(work, out)
