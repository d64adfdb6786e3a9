"""Meshes of traced jobs, derived from their process groups: the axes are chosen so that every group spans a product of
some of them.

A group of c ranks at a distance of s has an axis between the strides s and s * c. If the strides of all groups divide
one another, they are the bounds of the mesh's axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from simfrontier.base.errors import InputError
from simfrontier.core.program import Mesh

Digits = tuple[tuple[int, int], ...]  # (stride, count) of a group's ranks, the fastest first

_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class GroupAxes:
    """A mesh, and the axes that each process group of a job spans on it."""

    mesh: Mesh

    def axes(self, ranks: Sequence[int], where: str) -> tuple[str, ...]:
        """Return the axes that a group spans, in the order of its ranks, slowest axis first."""
        strides = _strides(self.mesh)
        out: list[str] = []
        for stride, count in reversed(digits_of(ranks, where)):
            inside = [name for name, low in strides.items() if stride <= low < stride * count and self.mesh[name] > 1]
            out += inside
        return tuple(out)

    def coordinate(self, axis: str, rank: int) -> int:
        """Return the coordinate of a rank on an axis."""
        return rank // _strides(self.mesh)[axis] % self.mesh[axis]

    def between(self, rank: int, peer: int, where: str) -> tuple[str, int, int]:
        """Return the single axis on which two ranks differ, and their coordinates on it. Raises InputError if they
        differ on several."""
        places = [(axis, self.coordinate(axis, rank), self.coordinate(axis, peer)) for axis in self.mesh.names]
        apart = [place for place in places if place[1] != place[2]]
        if len(apart) != 1:
            text = f"a message from rank {rank} to {peer}, which differ on {len(apart)} axes of the mesh; allowed: one"
            raise InputError(text, where=where)
        return apart[0]


def mesh_of(num_ranks: int, groups: Iterable[tuple[Sequence[int], str]], bounds: Iterable[int] = ()) -> GroupAxes:
    """Return the mesh of `num_ranks` ranks for groups given as (ranks, place in the trace). `bounds` are strides at
    which an axis always ends if they are compatible with the groups, such as the number of devices per node. Raises
    InputError for groups that are not a product of axes."""
    found: dict[int, str] = {}
    for ranks, where in groups:
        for stride, count in digits_of(ranks, where):
            if ranks[0] // stride % count:
                raise _not_regular(ranks, where)
            found.setdefault(stride, where)
            found.setdefault(stride * count, where)
    for bound in sorted({1, num_ranks, *found}):
        if num_ranks % bound:
            text = f"groups whose ranks end at {bound}, of {num_ranks} ranks; allowed: groups that divide the ranks"
            raise InputError(text, where=found.get(bound, ""))
    for bound in sorted(set(bounds)):
        if bound < num_ranks and all(bound % other == 0 or other % bound == 0 for other in {1, num_ranks, *found}):
            found.setdefault(bound, "")
    ends = sorted({1, num_ranks, *found})
    for low, high in pairwise(ends):
        if high % low:
            text = (
                f"groups with strides of {low} and {high} ranks; allowed: groups that make a mesh, strides that divide"
            )
            raise InputError(text, where=found.get(high) or found.get(low) or "")
    sizes = [high // low for low, high in pairwise(ends)]
    names = [f"axis{number}" for number in range(len(sizes))]
    axes = tuple(zip(names, reversed(sizes), strict=True)) or (("axis0", 1),)
    return GroupAxes(Mesh(axes))


def digits_of(ranks: Sequence[int], where: str) -> Digits:
    """Return the (stride, count) digits of a group, such that ranks[i] = ranks[0] + the sum of stride * digit over the
    digits of i. Raises InputError for ranks in any other order."""
    out: list[tuple[int, int]] = []
    known = 1
    while known < len(ranks):
        stride, count = ranks[known] - ranks[0], 1
        while known * count < len(ranks) and ranks[known * count] == ranks[0] + stride * count:
            count += 1
        count = min(count, len(ranks) // known)
        if stride < 1 or count < 2:
            raise _not_regular(ranks, where)
        out.append((stride, count))
        known *= count
    made = [0]
    for stride, count in out:
        made = [low + stride * digit for digit in range(count) for low in made]
    if [rank - ranks[0] for rank in ranks] != made:
        raise _not_regular(ranks, where)
    joined: list[tuple[int, int]] = []
    for stride, count in out:
        if joined and joined[-1][0] * joined[-1][1] == stride:
            joined[-1] = joined[-1][0], joined[-1][1] * count
        else:
            joined.append((stride, count))
    return tuple(joined)


def _not_regular(ranks: Sequence[int], where: str) -> InputError:
    shown = ", ".join(map(str, ranks[:_SHOWN])) + (" ..." if len(ranks) > _SHOWN else "")
    text = f"a group of ranks {shown}; allowed: ranks at regular distances, as the axes of a mesh have them"
    return InputError(text, where=where)


def _strides(mesh: Mesh) -> dict[str, int]:
    """Return the distance between neighbouring ranks on each axis."""
    out, stride = {}, mesh.num_ranks
    for name, size in mesh.axes:
        stride //= size
        out[name] = stride
    return out
