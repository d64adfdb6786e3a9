"""Communicator groups: who takes part in each collective, numbered from 1, the same on all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simfrontier.arrays import Ints
from simfrontier.records import dataclass
from simfrontier.schedule import Collective, Schedule

if TYPE_CHECKING:
    from simfrontier.cost import Cluster


@dataclass(frozen=True, slots=True)
class Communicator:
    """The communicator of a schedule over some axes. Its calls run in the order of their issue. Two communicators of
    the same ranks are two groups: their calls may overtake each other."""

    name: str
    axes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Groups:
    """`number_of`: of each communicator the number of the group that a rank is in [num_ranks], 0 of ranks that make no
    call of it. `members`: of each group its ranks, in the order of the communicator's axes."""

    number_of: dict[Communicator, Ints]
    members: dict[int, list[int]]


def communicator_of(op: Collective, schedule: Schedule) -> Communicator:
    """Whose call it is."""
    return Communicator(op.comm, schedule.mesh.live(op.axes))


def groups_of(schedule: Schedule, cluster: Cluster) -> Groups:
    """The groups of all collectives, numbered in the order in which the schedule has their communicators first, those
    of one communicator as the mesh has them. `cluster` says which ranks run which role."""
    role_of_rank = cluster.role_of[cluster.folding.rank_class]
    number_of: dict[Communicator, Ints] = {}
    members: dict[int, list[int]] = {}
    for communicator, users in _users(schedule).items():
        number_of[communicator] = np.zeros(schedule.mesh.num_ranks, np.int64)
        for group in schedule.mesh.groups(communicator.axes):
            if int(role_of_rank[group[0]]) in users:
                number = len(members) + 1
                members[number] = group.tolist()
                number_of[communicator][group] = number
    return Groups(number_of=number_of, members=members)


def _users(schedule: Schedule) -> dict[Communicator, set[int]]:
    """The roles that call each communicator, in the order of its first call."""
    out: dict[Communicator, set[int]] = {}
    for number, role in enumerate(schedule.roles):
        for block in {call.block: call.ops for call in role.calls}.values():
            for op in block:
                if isinstance(op, Collective):
                    out.setdefault(communicator_of(op, schedule), set()).add(number)
    return out
