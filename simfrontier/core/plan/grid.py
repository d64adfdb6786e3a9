"""Grids: how the ranks of a plan are laid out, how many are left for the data axes, and whether a model divides."""

from __future__ import annotations

import math
from collections.abc import Iterable

from simfrontier.base.errors import InputError
from simfrontier.core.program import Mesh

DATA, PACKAGE, GCD, STAGE = "data", "package", "gcd", "stage"
DATA_AXES = (DATA, PACKAGE, GCD)
Sizes = tuple[tuple[str, int], ...]


def data_sizes(num_ranks: int, inner: int, per_node: int, per_package: int) -> Sizes:
    """The data axes of `num_ranks` ranks that stand `inner` ranks apart: cut where packages and nodes end.

    Where model-parallel ranks fill a package or a node, its axis has size 1.
    """
    gcd = math.gcd(num_ranks, per_package // inner) if per_package % inner == 0 else 1
    inner *= gcd
    package = math.gcd(num_ranks // gcd, per_node // inner) if per_node % inner == 0 else 1
    return ((DATA, num_ranks // (gcd * package)), (PACKAGE, package), (GCD, gcd))


def ranks_left(num_devices: int, model: Sizes) -> int:
    """Data-parallel ranks beside a model-parallel grid. Raises InputError with the nearest numbers of devices."""
    size = math.prod(count for _, count in model)
    if num_devices % size == 0:
        return num_devices // size
    grid = " × ".join(f"{name} {count}" for name, count in model if count > 1)
    fits = [n for n in (num_devices // size * size, (num_devices // size + 1) * size) if n]
    raise InputError(
        f"grid {grid} = {size} ranks does not divide {num_devices} devices; nearest that it divides: "
        f"{' and '.join(map(str, fits))} devices"
    )


def grid_mesh(outside: Sizes, data: Sizes, inside: Sizes) -> Mesh:
    """A mesh, slowest axes first."""
    return Mesh((*outside, *data, *inside))


def refuse_remainder(quantity: str, size: int, key: str, parts: int) -> None:
    """Raise InputError where `size` (of `quantity`) does not divide by what the plan's `key` says, with the nearest
    values of the key that work."""
    if size % parts == 0:
        return
    raise InputError(
        f"{key} = {parts} does not divide {quantity} = {size}; nearest that do: {listed(nearest_divisors(size, parts))}"
    )


def nearest_divisors(number: int, wanted: int) -> list[int]:
    """The divisors next below and next above a number that does not divide."""
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]  # numbers may be squares of widths
    divisors = {*small, *(number // d for d in small)}
    below, above = [d for d in divisors if d < wanted], [d for d in divisors if d > wanted]
    return [*([max(below)] if below else []), *([min(above)] if above else [])]


def listed(numbers: Iterable[int]) -> str:
    """Numbers in words: `8 and 16`."""
    return " and ".join(map(str, numbers))
