"""AxoNN's grid: how many ranks share a matrix product along X, Y and Z, and how many share the batch beside these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Grid:
    """Sizes of the four dimensions, innermost first: ranks of a group along `x` are neighbours, along `y` they are x
    apart, along `z` x·y, along `data` x·y·z.

    The authors call them Gc, Gr, Gd and Gdata. All are powers of two, as in their search and in their tables.
    """

    x: int
    y: int
    z: int
    data: int

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        return self.x, self.y, self.z, self.data

    @property
    def tensor(self) -> int:
        """Ranks that share the weights of one layer."""
        return self.x * self.y * self.z


def grids(num_devices: int) -> Iterator[Grid]:
    """All grids of powers of two whose product is the number of devices, in the order of (x, y, z, data); none where
    that is no power of two itself."""
    if num_devices.bit_count() != 1:
        return
    powers = [1 << power for power in range(num_devices.bit_length())]
    for x, y, z in product(powers, repeat=3):
        if x * y * z <= num_devices:
            yield Grid(x=x, y=y, z=z, data=num_devices // (x * y * z))
