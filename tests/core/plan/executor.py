"""Placements and steps executed on integers: every rank, every element, in the order in which a buffer holds them."""

import math
from collections.abc import Iterable
from itertools import product

import numpy as np
from numpy.typing import NDArray

from simfrontier.core.plan.moves import MoveStep
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.placement import Placement

Ints = NDArray[np.int64]
Rank = tuple[int, ...]
Buffer = tuple[Ints, Ints]  # element numbers (negative: padding), and their values


def ranks_of(mesh: Mesh) -> list[Rank]:
    return list(product(*(range(size) for _, size in mesh.axes)))


def group_of(mesh: Mesh, rank: Rank, axes: Iterable[str]) -> list[Rank]:
    """The members of a rank's group, in the order of `axes`, the first slowest."""
    axes = tuple(axes)
    members = []
    for digits in product(*(range(mesh[axis]) for axis in axes)):
        member = list(rank)
        for axis, digit in zip(axes, digits, strict=True):
            member[mesh.names.index(axis)] = digit
        members.append(tuple(member))
    return members


def elements(mesh: Mesh, shape: tuple[int, ...], nesting: tuple[str, ...], placement: Placement, rank: Rank) -> Ints:
    """What a placement means: the numbers of the elements that a rank holds, in order. Padding is -1, -2, ..."""
    block = np.arange(math.prod(shape)).reshape(shape)
    for axis, dim in placement.shards:
        assert block.shape[dim] % mesh[axis] == 0
        block = np.split(block, mesh[axis], axis=dim)[rank[mesh.names.index(axis)]]
    line = block.ravel()
    line = np.concatenate([line, -1 - np.arange(-line.size % mesh.size(nesting))])
    digits = line.reshape([*(mesh[axis] for axis in nesting), -1])
    fixed = tuple(rank[mesh.names.index(a)] if a in placement.flat else slice(None) for a in nesting)
    return digits[fixed].ravel()


class World:
    """One tensor on a mesh: what each rank contributes to each element, and what a placement therefore holds."""

    def __init__(self, mesh: Mesh, shape: tuple[int, ...], nesting: tuple[str, ...], source: Placement) -> None:
        self.mesh, self.shape, self.nesting, self.source = mesh, shape, nesting, source
        numbers = np.random.default_rng(0)
        count = math.prod(shape)
        drawn = {rank: numbers.integers(1, 1 << 40, count) for rank in ranks_of(mesh)}
        partial = [mesh.names.index(axis) for axis in source.partial_axes]
        # ranks that differ only along axes that are not partial hold the same contribution
        self.raw = {
            rank: drawn[tuple(digit if i in partial else 0 for i, digit in enumerate(rank))] for rank in ranks_of(mesh)
        }

    def elements(self, placement: Placement, rank: Rank) -> Ints:
        return elements(self.mesh, self.shape, self.nesting, placement, rank)

    def buffer(self, placement: Placement, rank: Rank) -> Buffer:
        """The contributions of the ranks along the axes that are no longer partial, summed."""
        ids = self.elements(placement, rank)
        done = [axis for axis in self.mesh.names if axis in self.source.partial_axes - placement.partial_axes]
        total = sum(self.raw[member] for member in group_of(self.mesh, rank, done))
        return ids, np.where(ids < 0, 0, np.asarray(total)[np.maximum(ids, 0)])

    def state(self, placement: Placement) -> dict[Rank, Buffer]:
        return {rank: self.buffer(placement, rank) for rank in ranks_of(self.mesh)}


def execute(world: World, step: MoveStep, before: dict[Rank, Buffer]) -> tuple[dict[Rank, Buffer], bool]:
    """Run one step as its collective does it; returns what the ranks hold, and whether any had to reorder."""
    run = {
        "slice": _slice,
        "reduce_scatter": _reduce_scatter,
        "all_reduce": _all_reduce,
        "all_to_all": _all_to_all,
        "all_gather": _all_gather,
    }[step.kind]
    after: dict[Rank, Buffer] = {}
    moved = False
    for rank in before:
        after[rank], reordered = run(world, step, before, rank)
        moved |= reordered
    return after, moved


def _pick(buffer: Buffer, wanted: Ints) -> Buffer:
    """The wanted elements of a buffer; every one must be there."""
    ids, values = buffer
    where = {element: place for place, element in enumerate(ids.tolist())}
    return wanted, values[[where[element] for element in wanted.tolist()]]


def _without_padding(buffer: Buffer) -> Buffer:
    ids, values = buffer
    return ids[ids >= 0], values[ids >= 0]


def _slice(world: World, step: MoveStep, before: dict[Rank, Buffer], rank: Rank) -> tuple[Buffer, bool]:
    wanted = world.elements(step.dst, rank)
    if step.dst.shards != step.src.shards:  # another block, padded anew
        before, wanted = {rank: _without_padding(before[rank])}, wanted[wanted >= 0]
    return _pick(before[rank], wanted), False


def _reduce_scatter(world: World, step: MoveStep, before: dict[Rank, Buffer], rank: Rank) -> tuple[Buffer, bool]:
    """Each member reorders its buffer into the members' pieces; the pieces with the same number are summed."""
    group = group_of(world.mesh, rank, step.axes)
    pieces = [world.elements(step.dst, member) for member in group]
    held = before[rank][0]
    if step.dst.shards != step.src.shards:
        pieces, held = [piece[piece >= 0] for piece in pieces], held[held >= 0]
    order = np.concatenate(pieces)
    assert sorted(order.tolist()) == sorted(held.tolist()), "the pieces are the buffer"
    mine = pieces[group.index(rank)]
    total = sum(_pick(before[member], mine)[1] for member in group)
    return (mine, np.asarray(total)), not np.array_equal(order, held)


def _all_reduce(world: World, step: MoveStep, before: dict[Rank, Buffer], rank: Rank) -> tuple[Buffer, bool]:
    group = group_of(world.mesh, rank, step.axes)
    for member in group:
        assert np.array_equal(before[member][0], before[rank][0]), "summed element by element"
    return (before[rank][0], np.asarray(sum(before[member][1] for member in group))), False


def _all_to_all(world: World, step: MoveStep, before: dict[Rank, Buffer], rank: Rank) -> tuple[Buffer, bool]:
    """Every member sends every other the part of its buffer that the other one wants; all parts are equally large."""
    group = group_of(world.mesh, rank, step.axes)
    wanted = world.elements(step.dst, rank)
    wanted = wanted[wanted >= 0]
    parts = [_without_padding(before[member]) for member in group]
    parts = [(ids[np.isin(ids, wanted)], values[np.isin(ids, wanted)]) for ids, values in parts]
    assert len({ids.size for ids, _ in parts}) == 1
    got = np.concatenate([ids for ids, _ in parts]), np.concatenate([values for _, values in parts])
    held = before[rank][0]
    theirs = [world.elements(step.dst, member) for member in group]
    sent = np.concatenate([held[np.isin(held, ids)] for ids in theirs])
    moved = not np.array_equal(got[0], wanted) or not np.array_equal(sent, held[held >= 0])
    return _pick(got, wanted), moved


def _all_gather(world: World, step: MoveStep, before: dict[Rank, Buffer], rank: Rank) -> tuple[Buffer, bool]:
    """The members' buffers one after the other, then put in order."""
    group = group_of(world.mesh, rank, step.axes)
    got = np.concatenate([before[m][0] for m in group]), np.concatenate([before[m][1] for m in group])
    wanted = world.elements(step.dst, rank)
    if step.dst.shards != step.src.shards:
        got, wanted = _without_padding(got), wanted[wanted >= 0]
    assert sorted(got[0].tolist()) == sorted(wanted.tolist()), "the pieces are the block"
    return _pick(got, wanted), not np.array_equal(got[0], wanted)
