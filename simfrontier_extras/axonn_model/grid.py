"""AxoNN's grid: how many ranks share a matrix product along X, Y and Z, and how many share the batch beside these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simfrontier.errors import InputError


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

    def __post_init__(self) -> None:
        for name, size in zip(("x", "y", "z", "data"), self.sizes, strict=True):
            if size < 1 or size & (size - 1):
                raise InputError(f"grid: got {name} = {size}, allowed: a power of two")

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        return self.x, self.y, self.z, self.data

    @property
    def num_devices(self) -> int:
        return self.x * self.y * self.z * self.data

    @property
    def tensor(self) -> int:
        """Ranks that share the weights of one layer."""
        return self.x * self.y * self.z


def grids(num_devices: int) -> Iterator[Grid]:
    """All grids of powers of two whose product is the number of devices, in the order of (x, y, z, data); none where
    that is no power of two itself."""
    if num_devices < 1 or num_devices & (num_devices - 1):
        return
    powers = [1 << power for power in range(num_devices.bit_length())]
    for x in powers:
        for y in powers:
            for z in powers:
                if x * y * z <= num_devices:
                    yield Grid(x=x, y=y, z=z, data=num_devices // (x * y * z))
