"""The roles of a schedule: the axis they differ along, the faults of their places, and the calls that they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Ints
from simfrontier.base.errors import nearest
from simfrontier.core.program.ir import Collective, Exchange, Op, Role, Schedule
from simfrontier.core.program.mesh import Mesh

CallSequence = (
    str | tuple[str, int, int]
)  # calls that meet in their order: of a communicator, or of it between two ends


def axis_of_roles(schedule: Schedule) -> str | None:
    """The axis along which ranks run different roles; None where one role is shared by all ranks."""
    return next((role.at[0] for role in schedule.roles if role.at is not None), None)


def sequence_of(op: Collective | Exchange) -> CallSequence:
    """What a call is one of: the k-th call of a sequence is the same call in all programs that take part in it."""
    if isinstance(op, Collective):
        return op.comm
    low, high = sorted(op.ends)
    return op.comm, low, high


def members_of(op: Op, schedule: Schedule) -> tuple[int, ...]:
    """The numbers of the roles that a call joins; empty for what a role does by itself (a collective within its
    ranks is another call in every role)."""
    if isinstance(op, Exchange):
        return tuple(i for i, role in enumerate(schedule.roles) if role.at is not None and role.at[1] in op.ends)
    if isinstance(op, Collective) and len(schedule.roles) > 1 and axis_of_roles(schedule) in op.axes:
        return tuple(range(len(schedule.roles)))
    return ()


# ── faults, in words ──


def faults_of_places(mesh: Mesh, roles: tuple[Role, ...]) -> Iterator[tuple[int, str]]:
    """(number of a role, the fault of its place): roles lie along one axis, one at each coordinate."""
    if len(roles) == 1 and roles[0].at is None:
        return
    taken: dict[int, str] = {}
    axis = next((role.at[0] for role in roles if role.at is not None), "")
    names: set[str] = set()
    for number, role in enumerate(roles):
        if role.name in names:
            yield number, f"the name {role.name} is that of a role before it"
        names.add(role.name)
        if role.at is None:
            yield number, f"role {role.name} is at no place; each of {len(roles)} roles needs one: [axis, coordinate]"
            return
        mine, coordinate = role.at
        if mine not in mesh.names:
            yield number, f"unknown axis {mine!r}; {nearest(mine, mesh.names)}"
            return
        if mine != axis:
            yield number, f"axis {mine}; the roles before it stand along {axis}"
            return
        if not 0 <= coordinate < mesh[axis]:
            yield number, f"{coordinate} is out of range; allowed: 0 or more, up to {mesh[axis] - 1}"
        elif coordinate in taken:
            yield number, f"{axis} {coordinate} is the place of role {taken[coordinate]} already"
        taken.setdefault(coordinate, role.name)
    lacking = [i for i in range(mesh[axis]) if i not in taken] if axis else []
    if lacking:
        yield len(roles) - 1, f"no role at {axis} {lacking[0]}; roles stand at all of its {mesh[axis]} coordinates"


def fault_of_exchange(op: Exchange, mesh: Mesh) -> str | None:
    """What is wrong with the ends and operands of an exchange, by itself."""
    if op.axis not in mesh.names:
        return f"unknown axis {op.axis!r}; {nearest(op.axis, mesh.names)}"
    for end in op.ends:
        if not 0 <= end < mesh[op.axis]:
            return f"end {end} is out of range; allowed: 0 or more, up to {mesh[op.axis] - 1}"
    if op.ends[0] == op.ends[1]:
        return f"both ends are {op.axis} {op.ends[0]}; they differ"
    for name, src, dst in (("", op.src, op.dst), ("back_", op.back_src, op.back_dst)):
        if len(src) != len(dst):
            return f"{len(src)} {name}src, but {len(dst)} {name}dst; they pair up"
    return None if op.src or op.back_src else "it sends nothing"


def fault_of_end(op: Exchange, role: Role) -> str | None:
    """What is wrong with an exchange in the program of this role."""
    if role.at is not None and role.at[0] == op.axis and role.at[1] in op.ends:
        return None
    place = "at no place" if role.at is None else f"at {role.at[0]} {role.at[1]}"
    return f"exchange {op.name} is between {op.axis} {op.ends[0]} and {op.ends[1]}; role {role.name} is {place}"


@dataclass(frozen=True, slots=True)
class Communicator:
    """A communicator of a schedule over some axes. Its calls run in the order of their issue. Two communicators of the
    same ranks are two groups: their calls may overtake each other."""

    name: str
    axes: tuple[str, ...]

    @property
    def title(self) -> str:
        """What its groups are, for a reader."""
        return f"{self.name} over {'+'.join(self.axes)}"


class CommunicatorGroups:
    """The groups of communicators, numbered from 1 on: communicator by communicator, those of one as the mesh has them.

    `number_of`: of each communicator the number of the group that a rank is in [num_ranks], 0 of one that is in none;
    `members`: of each group its ranks, in the order of the communicator's axes. `callers`: which ranks call a
    communicator [num_ranks], where not all do: groups of others have no number.
    """

    def __init__(
        self,
        mesh: Mesh,
        communicators: Sequence[Communicator],
        callers: Mapping[Communicator, NDArray[np.bool_]] | None = None,
    ) -> None:
        self.number_of: dict[Communicator, Ints] = {}
        self.members: dict[int, list[int]] = {}
        for communicator in communicators:
            numbers = self.number_of[communicator] = np.zeros(mesh.num_ranks, np.int64)
            for group in mesh.groups(communicator.axes):
                if callers is None or callers[communicator][group[0]]:
                    numbers[group] = len(self.members) + 1
                    self.members[len(self.members) + 1] = group.tolist()

    def of(self, communicator: Communicator, rank: int) -> int:
        """The number of the group of a communicator that a rank is in."""
        return int(self.number_of[communicator][rank])
