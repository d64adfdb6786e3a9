"""Contents of a training checkpoint: the states that a step needs at its beginning, and the ranks that write them.

Between two steps a model consists of its weights, their masters and moments, the states that it keeps (such as moving
averages), its constants, and those copies of weights that the next step reads before it writes them. Data replicated on
several ranks is written once: by the rank at coordinate 0 of every axis that does not divide the state, in the first
role that holds the state. If collectives encode every hop separately, the replicas of a state differ slightly, and each
rank writes its own replica.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simfrontier.core.program.expansion import AbsoluteRefs
from simfrontier.core.program.ir import Ref, Role, Schedule, Tensor, TensorRole
from simfrontier.core.program.roles import axis_of_roles

LASTING: tuple[TensorRole, ...] = ("weight", "master", "optimizer", "state", "constant")
"""Roles of tensors that a checkpoint always holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedState:
    """One tensor instance in a checkpoint: its layer, the numbers of the roles whose ranks hold it, the axes that
    divide it, the number of ranks that write it (or a part of it), and the bytes that each of them writes."""

    tensor: Tensor
    layer: int
    roles: tuple[int, ...]
    axes: tuple[str, ...]
    num_writers: int
    local_bytes: int

    @property
    def num_bytes(self) -> int:
        """Total bytes of this tensor instance in the checkpoint, written by all ranks together, padding included."""
        return self.num_writers * self.local_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedBytes:
    """Size of a checkpoint in bytes: `total` over all ranks, `largest` for the rank that writes most, and the number of
    ranks that write data."""

    total: int
    largest: int
    num_writers: int


def saved_states(schedule: Schedule) -> tuple[SavedState, ...]:
    """Return all tensor instances in the checkpoint of a schedule, in the order of the schedule's tensors, then of
    layers."""
    mesh, axis = schedule.mesh, axis_of_roles(schedule)
    holders: dict[Ref, list[int]] = {}
    for number, role in enumerate(schedule.roles):
        for ref in _held(schedule, role):
            holders.setdefault(ref, []).append(number)
    place = {name: number for number, name in enumerate(schedule.tensors)}
    out = []
    for ref in sorted(holders, key=lambda each: (place[each.name], each.layer)):
        tensor, roles = schedule.tensors[ref.name], tuple(holders[ref])
        axes = dividing_axes(schedule, tensor)
        if schedule.codes_per_hop:
            count = mesh.num_ranks if axis is None else mesh.num_ranks // mesh[axis] * len(roles)
        else:
            count = mesh.size(axes)
        out.append(
            SavedState(
                tensor=tensor,
                layer=ref.layer,
                roles=roles,
                axes=axes,
                num_writers=count,
                local_bytes=tensor.local_bytes(mesh),
            )
        )
    return tuple(out)


def dividing_axes(schedule: Schedule, tensor: Tensor) -> tuple[str, ...]:
    """Return the mesh axes along which ranks hold different parts of a tensor."""
    placement = tensor.placement
    return schedule.mesh.live(schedule.mesh.ordered({*placement.flat, *(axis for axis, _ in placement.shards)}))


def saved_bytes(schedule: Schedule) -> SavedBytes:
    """Return the size of a schedule's checkpoint, in total and for the rank that writes most."""
    states = saved_states(schedule)
    per_role = [0] * len(schedule.roles)
    widest: dict[int, tuple[str, ...]] = {}
    for state in states:
        for role in state.roles if schedule.codes_per_hop else state.roles[:1]:
            per_role[role] += state.local_bytes  # the rank at coordinate 0 of the other axes writes a part of each
            widest[role] = schedule.mesh.ordered({*widest.get(role, ()), *state.axes})
    mesh, axis = schedule.mesh, axis_of_roles(schedule)
    of_role = mesh.num_ranks // (1 if axis is None else mesh[axis])
    writers = sum(of_role if schedule.codes_per_hop else mesh.size(axes) for axes in widest.values())
    return SavedBytes(
        total=sum(state.num_bytes for state in states), largest=max(per_role, default=0), num_writers=writers
    )


def _held(schedule: Schedule, role: Role) -> Iterator[Ref]:
    """Return the tensor instances of a role that belong in a checkpoint; copies of weights only if they are read before
    they are written."""
    roles = {name: tensor.role for name, tensor in schedule.tensors.items() if tensor.persistent}
    lasting = {name: role for name, role in roles.items() if role in LASTING or role == "copy"}
    refs = AbsoluteRefs(schedule.tensors, role)
    first: dict[Ref, bool] = {}
    for call, op in role.instances():
        reads, *changed = refs.absolute(op, call)
        for is_read, touched in ((True, reads), *((False, each) for each in changed)):
            for ref in touched:
                if ref.name in lasting:
                    first.setdefault(ref, is_read)
    return (ref for ref, is_read in first.items() if is_read or lasting[ref.name] != "copy")
