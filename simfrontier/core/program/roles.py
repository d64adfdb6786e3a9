"""The roles of a schedule: the axis along which they differ, validation of their coordinates, and the collectives and
exchanges that they share."""

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
)  # calls that match in order: of a communicator, for exchanges between two ends


def axis_of_roles(schedule: Schedule) -> str | None:
    """Return the axis along which ranks run different roles; None if all ranks share one role."""
    return next((role.at[0] for role in schedule.roles if role.at is not None), None)


def sequence_of(op: Collective | Exchange) -> CallSequence:
    """Return the call sequence of a collective or exchange: the communicator, for an exchange with its two ends. The
    k-th call of a sequence is the same call in all programs that take part in it."""
    if isinstance(op, Collective):
        return op.comm
    low, high = sorted(op.ends)
    return op.comm, low, high


def members_of(op: Op, schedule: Schedule) -> tuple[int, ...]:
    """Return the numbers of the roles that take part in a collective or exchange. Empty if it stays within a role (each
    role then performs a separate collective)."""
    if isinstance(op, Exchange):
        return tuple(i for i, role in enumerate(schedule.roles) if role.at is not None and role.at[1] in op.ends)
    if isinstance(op, Collective) and len(schedule.roles) > 1 and axis_of_roles(schedule) in op.axes:
        return tuple(range(len(schedule.roles)))
    return ()


def faults_of_roles(mesh: Mesh, roles: tuple[Role, ...]) -> Iterator[tuple[int, str, str]]:
    """Yield (number of a role, field, fault) for each violation of two rules: roles lie along one axis, one at each
    coordinate, and an exchange occurs only in the programs of the roles at its ends."""
    place = next(_faults_of_places(mesh, roles), None) if len(roles) > 1 or any(role.at for role in roles) else None
    if place is not None:
        yield place
    for number, role in enumerate(roles):
        ops = dict.fromkeys(op for call in role.first_calls() for op in call.ops)
        for op in ops:
            if isinstance(op, Exchange) and (fault := _fault_of_exchange(op, role, mesh)):
                yield number, "calls", f"exchange {op.name}: {fault}"


def _faults_of_places(mesh: Mesh, roles: tuple[Role, ...]) -> Iterator[tuple[int, str, str]]:
    taken: dict[int, str] = {}
    axis = next((role.at[0] for role in roles if role.at is not None), "")
    for number, role in enumerate(roles):
        if role.name in [other.name for other in roles[:number]]:
            yield number, "name", f"the name {role.name} is that of a role before it"
        if role.at is None:
            text = f"role {role.name} is at no place; each of {len(roles)} roles needs one: [axis, coordinate]"
            yield number, "", text
            continue
        mine, coordinate = role.at
        if mine not in mesh.names:
            yield number, "at", f"unknown axis {mine!r}; {nearest(mine, mesh.names)}"
        elif mine != axis:
            yield number, "at", f"axis {mine}; the roles before it stand along {axis}"
        elif not 0 <= coordinate < mesh[axis]:
            yield number, "at", f"{coordinate} is out of range; allowed: 0 or more, up to {mesh[axis] - 1}"
        elif coordinate in taken:
            yield number, "at", f"{axis} {coordinate} is the place of role {taken[coordinate]} already"
        taken[coordinate] = role.name
    lacking = next((i for i in range(mesh[axis]) if i not in taken), None)
    if lacking is not None:
        text = f"no role at {axis} {lacking}; roles stand at all of its {mesh[axis]} coordinates"
        yield len(roles) - 1, "at", text


def _fault_of_exchange(op: Exchange, role: Role, mesh: Mesh) -> str | None:
    """Return the fault of an exchange in the program of a role; None if it has no fault."""
    if op.axis not in mesh.names:
        return f"unknown axis {op.axis!r}; {nearest(op.axis, mesh.names)}"
    for end in op.ends:
        if not 0 <= end < mesh[op.axis]:
            return f"end {end} is out of range; allowed: 0 or more, up to {mesh[op.axis] - 1}"
    if op.ends[0] == op.ends[1]:
        return f"both ends are {op.axis} {op.ends[0]}; they differ"
    if len(op.src) != len(op.dst) or len(op.back_src) != len(op.back_dst) or not op.reads:
        sizes = ", ".join(str(len(refs)) for refs in (op.src, op.dst, op.back_src, op.back_dst))
        return f"{sizes} src, dst, back_src, back_dst; they pair up, and something is sent"
    if role.at is None or role.at[0] != op.axis or role.at[1] not in op.ends:
        place = "at no place" if role.at is None else f"at {role.at[0]} {role.at[1]}"
        return f"it is between {op.axis} {op.ends[0]} and {op.ends[1]}; role {role.name} is {place}"
    return None


@dataclass(frozen=True, slots=True)
class Communicator:
    """A communicator of a schedule, which spans some mesh axes. Its calls run in issue order. Two communicators over
    the same ranks are independent: the calls of one may overtake those of the other."""

    name: str
    axes: tuple[str, ...]

    @property
    def title(self) -> str:
        """Name and axes of the communicator, for messages."""
        return f"{self.name} over {'+'.join(self.axes)}"


class CommunicatorGroups:
    """The rank groups of several communicators, numbered from 1: communicator by communicator, and within a
    communicator in mesh order.

    `number_of`: for each communicator, the number of each rank's group, as an array [num_ranks]; 0 if the rank is in no
    group.
    `members`: for each group number, the ranks of the group, in the order of the communicator's axes.
    `callers`: for each communicator, a mask [num_ranks] of the ranks that use it, if not all ranks do; groups of other
    ranks get no number.
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
        """Return the number of the group to which a rank belongs in a communicator."""
        return int(self.number_of[communicator][rank])
