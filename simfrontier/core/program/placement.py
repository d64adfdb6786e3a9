"""Placements: how the elements of a logical tensor are distributed on a mesh, and how many elements each rank holds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, cast

from simfrontier.base.errors import InputError
from simfrontier.core.program.mesh import Mesh

PartialOp = Literal["sum", "max", "merge"]


@dataclass(frozen=True, slots=True)
class Placement:
    """Placement of a tensor along each mesh axis. The tensor is replicated along the axes that are not named.

    `shards`: (axis, dimension) pairs, outermost first, applied before all else; the dimension must be divisible by the
    axis size.
    `flat`: axes along which the block that remains is flattened, padded and divided; their order is that of the
    tensor's nesting.
    `partial`: (axis, op) pairs; the values of the ranks along the axis have yet to be combined by this reduction op.
    """

    shards: tuple[tuple[str, int], ...] = ()
    flat: frozenset[str] = frozenset()
    partial: tuple[tuple[str, PartialOp], ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)  # cached, as sizes are looked up by placement

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.shards, self.flat, self.partial)))
        named = [a for a, _ in self.shards] + list(self.flat) + [a for a, _ in self.partial]
        if len(set(named)) != len(named):
            raise InputError(f"placement {self}: an axis is named twice")

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Placement], tuple[object, ...]]:
        return Placement, (self.shards, self.flat, self.partial)  # without the hash: they differ between processes

    @property
    def partial_axes(self) -> frozenset[str]:
        return frozenset(axis for axis, _ in self.partial)

    def on(self, mesh: Mesh) -> Placement:
        """Return the placement in canonical form on a mesh: without axes of size 1, and with partial axes in mesh
        order."""
        shards = tuple((axis, dim) for axis, dim in self.shards if mesh[axis] > 1)
        ops = dict(self.partial)
        partial = tuple((axis, ops[axis]) for axis in mesh.ordered(ops) if mesh[axis] > 1)
        return Placement(shards, frozenset(axis for axis in self.flat if mesh[axis] > 1), partial)

    def __str__(self) -> str:
        parts = [f"{axis}:shard({dim})" for axis, dim in self.shards]
        parts += [f"{axis}:flat" for axis in sorted(self.flat)]
        parts += [f"{axis}:partial({op})" for axis, op in self.partial]
        return " ".join(parts) or "replicate"


REPLICATE = Placement()


def flat(axes: Iterable[str]) -> Placement:
    """Return the placement that is flat over `axes` and replicated over all other axes."""
    return Placement(flat=frozenset(axes))


def partial(axes: Iterable[str], flat_axes: Iterable[str] = (), op: PartialOp = "sum") -> Placement:
    """Return the placement that is partial over `axes` (to be reduced by `op`), and flat over `flat_axes`."""
    return Placement(flat=frozenset(flat_axes), partial=tuple((axis, op) for axis in axes))


def by_dimension(placement: Placement) -> Placement:
    """Return the same placement with its shards sorted by tensor dimension. The order of shards matters only within one
    dimension."""
    if len(placement.shards) < 2:
        return placement
    return replace(placement, shards=tuple(sorted(placement.shards, key=lambda shard: shard[1])))


def parse_placement(text: str) -> Placement:
    """Parse the text of a placement in the format of `str(placement)`. Raises InputError."""
    if text == "replicate":
        return REPLICATE
    shards: list[tuple[str, int]] = []
    flats: set[str] = set()
    partials: list[tuple[str, PartialOp]] = []
    for part in text.split():
        match = re.fullmatch(r"(\w+):(?:shard\((\d+)\)|(flat)|partial\((sum|max|merge)\))", part)
        if match is None:
            raise InputError(
                f"placement {text!r}: {part!r} is none of axis:flat, axis:shard(dimension), axis:partial(sum)"
            )
        axis, dim, is_flat, op = match.groups()
        if is_flat:
            flats.add(axis)
        elif dim is not None:
            shards.append((axis, int(dim)))
        else:
            partials.append((axis, cast(PartialOp, op)))
    return Placement(tuple(shards), frozenset(flats), tuple(partials))


def block_shape(shape: tuple[int, ...], placement: Placement, mesh: Mesh, name: str) -> tuple[int, ...]:
    """Return the shape of the block that remains on a rank after sharding. `name` is the tensor's name in the error
    message if a dimension is not divisible."""
    block = list(shape)
    for axis, dim in placement.shards:
        size = mesh[axis]
        if dim >= len(block):
            raise InputError(f"{name}: placement shards dimension {dim}, but the shape is {shape}")
        if block[dim] % size:
            raise InputError(f"{name}: dimension {dim} of size {block[dim]} does not divide over {axis} = {size}")
        block[dim] //= size
    return tuple(block)


@lru_cache(maxsize=2**16)
def local_elements(
    shape: tuple[int, ...], nesting: tuple[str, ...], placement: Placement, mesh: Mesh, name: str = "tensor"
) -> tuple[int, int]:
    """Return (number of elements on one rank, number of padding elements in the whole block). The first number includes
    padding.

    The block that remains after sharding is padded once to a multiple of the product of all axes in `nesting`, and then
    divided over the flat axes. Only the last of these parts contain the padding.
    """
    outside = placement.flat - set(nesting)
    if outside:
        raise InputError(f"{name}: flat over {', '.join(sorted(outside))}, which its nesting {nesting} does not name")
    block = math.prod(block_shape(shape, placement, mesh, name))
    multiple = mesh.size(nesting)
    padding = -block % multiple
    return (block + padding) // mesh.size(placement.flat), padding


def placements_of(split: Mapping[str, str], dims: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Return the (axis, dimension) shards of an operand with the labels `dims`, if `split` (axis → label) shards the
    op's iteration space."""
    return tuple((axis, dims.index(label)) for axis, label in split.items() if label in dims)
