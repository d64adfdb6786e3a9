"""Process groups of a simulated job: numbers and names that all ranks of a group share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simfrontier.arrays import Ints
from simfrontier.schedule import Mesh

Kind = tuple[str, tuple[str, ...]]  # a communicator, and the axes of its groups


@dataclass
class ProcessGroups:
    """The groups of a mesh, by communicator and axes. The world has number 0, as in PyTorch; the groups of each kind
    follow, in the order of the kinds."""

    mesh: Mesh
    kinds: Sequence[Kind]
    _groups: dict[tuple[str, ...], Ints] = field(default_factory=dict, init=False)
    _row: dict[tuple[str, ...], Ints] = field(default_factory=dict, init=False)
    _first: dict[Kind, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        number = 1
        for kind in self.kinds:
            self._first[kind] = number
            number += len(self._over(kind[1]))

    def name(self, kind: Kind, rank: int) -> str:
        """The name of the group of that kind that a rank is in."""
        self._over(kind[1])
        return str(self._first[kind] + int(self._row[kind[1]][rank]))

    def ranks(self, axes: tuple[str, ...], rank: int) -> list[int]:
        """The ranks of a rank's group over some axes, in the order of the group."""
        groups = self._over(axes)
        ranks: list[int] = groups[self._row[axes][rank]].tolist()
        return ranks

    def described(self, rank: int) -> list[dict[str, Any]]:
        """All groups that a rank is in, as a trace lists them."""
        world = _described("0", "default_pg", list(range(self.mesh.num_ranks)))
        return [world] + [
            _described(self.name(kind, rank), title_of(kind), self.ranks(kind[1], rank)) for kind in self.kinds
        ]

    def _over(self, axes: tuple[str, ...]) -> Ints:
        if axes not in self._groups:
            groups = self.mesh.groups(axes)
            row = np.empty(self.mesh.num_ranks, np.int64)
            row[groups] = np.arange(len(groups))[:, None]
            self._groups[axes], self._row[axes] = groups, row
        return self._groups[axes]


def title_of(kind: Kind) -> str:
    """What a group is, for a reader."""
    comm, axes = kind
    return f"{comm} over {'+'.join(axes)}"


def _described(name: str, what: str, ranks: list[int]) -> dict[str, Any]:
    return {"pg_name": name, "pg_desc": what, "backend_config": "cuda:nccl", "pg_size": len(ranks), "ranks": ranks}
