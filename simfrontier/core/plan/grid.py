"""Grids of ranks: their layout as a mesh, the number of data-parallel ranks, and checks that the model divides
evenly."""

from __future__ import annotations

import math
from collections.abc import Iterable

from simfrontier.base.errors import InputError
from simfrontier.core.program import Mesh

DATA, PACKAGE, GCD, STAGE = "data", "package", "gcd", "stage"
DATA_AXES = (DATA, PACKAGE, GCD)
EXPERT = "expert"  # innermost of the axes over which the batch is divided, where experts are
CONTEXT, CONTEXT_HEADS = "context", "context_heads"
CONTEXT_AXES = (CONTEXT, CONTEXT_HEADS)  # cut the sequence outside attention; within it, the second cuts heads
Sizes = tuple[tuple[str, int], ...]


def data_sizes(num_ranks: int, inner: int, per_node: int, per_package: int) -> Sizes:
    """Return the sizes of the data axes for `num_ranks` ranks at a stride of `inner` ranks, split at the bounds of
    packages and nodes.

    An axis has size 1 where model-parallel ranks fill a package or a node.
    """
    gcd = math.gcd(num_ranks, per_package // inner) if per_package % inner == 0 else 1
    inner *= gcd
    package = math.gcd(num_ranks // gcd, per_node // inner) if per_node % inner == 0 else 1
    return ((DATA, num_ranks // (gcd * package)), (PACKAGE, package), (GCD, gcd))


def ranks_left(num_devices: int, model: Sizes) -> int:
    """Return the number of data-parallel ranks if each model replica takes a grid of `model` ranks on `num_devices`
    devices. Raises InputError with the nearest device counts that the grid divides."""
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
    """Return the mesh with the axes `outside` (slowest), `data` and `inside` (fastest)."""
    return Mesh((*outside, *data, *inside))


def refuse_remainder(quantity: str, size: int, key: str, parts: int, instead: str = "") -> None:
    """Raise InputError if `size`, the size of `quantity`, is not divisible by `parts`, the value of the plan's `key`;
    the message has the nearest values of the key that work, and ends with what else works."""
    if size % parts == 0:
        return
    raise InputError(
        f"{key} = {parts} does not divide {quantity} = {size}; nearest that do: "
        f"{listed(nearest_divisors(size, parts))}{instead}"
    )


def nearest_divisors(number: int, wanted: int) -> list[int]:
    """Return the nearest divisors of `number` below and above `wanted`, which is not a divisor itself."""
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]  # numbers may be squares of widths
    divisors = {*small, *(number // d for d in small)}
    below, above = [d for d in divisors if d < wanted], [d for d in divisors if d > wanted]
    return [*([max(below)] if below else []), *([min(above)] if above else [])]


def listed(numbers: Iterable[int]) -> str:
    """Return a list of numbers as text: `8 and 16`."""
    return " and ".join(map(str, numbers))
