"""Placements: distribution of a logical tensor's elements on a mesh, and the number of elements per rank."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, cast

from simfrontier.base.errors import InputError
from simfrontier.core.program.mesh import Mesh

PartialOp = Literal["sum", "max", "merge"]


@dataclass(frozen=True, slots=True)
class Placement:
    """Placement of a tensor along each axis; axes that are not named replicate it.

    `shards`: (axis, dimension) pairs, outermost first, applied before anything else; sizes must divide.
    `flat`: axes whose digit of the padded flat index of the block is fixed (a set: order is the tensor's nesting).
    `partial`: (axis, op) pairs: the values of the ranks along the axis are yet to be combined by op.
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
        """Return the canonical form on a mesh: without axes of size 1, partial axes in mesh order."""
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
    """Return a placement that is flat over `axes` and replicated over the others."""
    return Placement(flat=frozenset(axes))


def partial(axes: Iterable[str], flat_axes: Iterable[str] = (), op: PartialOp = "sum") -> Placement:
    """Return a placement that is yet to be combined over `axes`, and flat over `flat_axes`."""
    return Placement(flat=frozenset(flat_axes), partial=tuple((axis, op) for axis in axes))


def parse_placement(text: str) -> Placement:
    """Parse the text of a placement, as `str(placement)` writes it. Raises InputError."""
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
    """Return the shape of the block after sharding; `name` is used in the error message if a size does not divide."""
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
    """Return the number of elements on one rank: (with padding, padding of its whole block spread over the flat
    pieces).

    The block after sharding is padded once to a multiple of the whole nesting. The second number is the padding of the
    whole block, not of one rank: only the last pieces hold it.
    """
    outside = placement.flat - set(nesting)
    if outside:
        raise InputError(f"{name}: flat over {', '.join(sorted(outside))}, which its nesting {nesting} does not name")
    block = math.prod(block_shape(shape, placement, mesh, name))
    multiple = mesh.size(nesting)
    padding = -block % multiple
    return (block + padding) // mesh.size(placement.flat), padding


def placements_of(split: Mapping[str, str], dims: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Return the shards of an operand with labels `dims` under an op whose iteration space is cut by `split` (axis →
    label)."""
    return tuple((axis, dims.index(label)) for axis, label in split.items() if label in dims)
