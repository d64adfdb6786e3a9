"""The mesh of ranks: an ordered product of named axes, the slowest first, and the groups of ranks over any set of
axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.errors import InputError, nearest


@dataclass(frozen=True, slots=True)
class Mesh:
    """A mesh of ranks: an ordered product of named axes. A rank's number is the mixed-radix number of its coordinates,
    with the first axis as the slowest digit."""

    axes: tuple[tuple[str, int], ...]
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _sizes: dict[str, int] = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)  # cached, as sizes are looked up by mesh

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.axes))
        names = tuple([name for name, _ in self.axes])
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "_sizes", dict(self.axes))
        if len(self._sizes) != len(names):
            raise InputError(f"mesh: axis named twice in {', '.join(names)}")
        for name, size in self.axes:
            if size < 1:
                raise InputError(f"mesh: axis {name} has size {size}; allowed: 1 or more")

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Mesh], tuple[tuple[tuple[str, int], ...]]]:
        return Mesh, (self.axes,)  # without the hash: hashes of strings differ between processes

    @property
    def num_ranks(self) -> int:
        return math.prod(self._sizes.values())

    def __getitem__(self, axis: str) -> int:
        try:
            return self._sizes[axis]
        except KeyError:
            raise InputError(f"mesh: no axis {axis!r}; {nearest(axis, self.names)}") from None

    def size(self, axes: Iterable[str]) -> int:
        """Return the number of ranks in one group over the given axes."""
        return math.prod([self[axis] for axis in axes])

    def live(self, axes: Iterable[str]) -> tuple[str, ...]:
        """Return the given axes without those of size 1, in the same order."""
        return tuple(axis for axis in axes if self[axis] > 1)

    def ordered(self, axes: Iterable[str]) -> tuple[str, ...]:
        """Return the given axes in the order of the mesh."""
        wanted = set(axes)
        for axis in wanted:
            self[axis]
        return tuple(name for name in self.names if name in wanted)

    def groups(self, axes: tuple[str, ...]) -> NDArray[np.int64]:
        """Return the ranks of all groups over the given axes, as an array [num_groups, group size]. Within a group,
        ranks are ordered by their coordinates on `axes`, the first axis slowest."""
        ranks = np.arange(self.num_ranks).reshape([size for _, size in self.axes])
        inside = [self.names.index(axis) for axis in axes]
        outside = [i for i in range(len(self.axes)) if i not in inside]
        return np.ascontiguousarray(ranks.transpose(outside + inside).reshape(-1, self.size(axes)))
