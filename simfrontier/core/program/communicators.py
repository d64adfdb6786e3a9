"""Communicators of a schedule, and the numbers that all ranks of one of their groups share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Ints
from simfrontier.core.program.mesh import Mesh


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
