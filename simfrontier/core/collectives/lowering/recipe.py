"""A recipe: by which algorithm a group carries a collective, in which orders, in how many slices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from simfrontier.base.errors import nearest
from simfrontier.base.io import Names
from simfrontier.core.collectives.lowering.transfers import Transfer
from simfrontier.core.program import ALGORITHMS


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one group carries a collective.

    algorithm  by name, one of `collectives.algorithms`
    orders     per channel the members (numbered 0 to n-1 in the group's order), node after node, so that each node's
               members are `per_node` neighbours in the list; rings close it
    per_node   members on each node; n where the group is on one
    slices     how many parts a channel cuts its chunks into, so that parts follow one another
    least_elements  a message's piece is only cut into as many parts as keep this many elements: small messages go on
               fewer channels
    """

    algorithm: Annotated[str, Names(*ALGORITHMS)]
    orders: tuple[tuple[int, ...], ...]
    per_node: int
    slices: int = 1
    least_elements: int = 1

    @property
    def size(self) -> int:
        return len(self.orders[0])

    @property
    def num_nodes(self) -> int:
        return self.size // self.per_node

    def fault(self) -> str | None:
        """What does not hold together in it, if anything: got, and what is allowed."""
        if self.algorithm not in ALGORITHMS:
            return f"algorithm: {self.algorithm!r} is not known; {nearest(self.algorithm, ALGORITHMS)}"
        if not self.orders or not self.orders[0]:
            return "orders: none; allowed: one or more, each of all members"
        members = list(range(self.size))
        for channel, order in enumerate(self.orders):
            if sorted(order) != members:
                return f"orders: channel {channel} is not an order of the members 0 to {self.size - 1}"
        if self.per_node < 1 or self.size % self.per_node:
            return f"per_node: {self.per_node} does not divide the group's {self.size} members"
        if len({self._nodes(order) for order in self.orders}) > 1:
            return f"orders: channels differ in which {self.per_node} members are on one node"
        if self.slices < 1:
            return f"slices: {self.slices}; allowed: 1 or more"
        if self.least_elements < 1:
            return f"least_elements: {self.least_elements}; allowed: 1 or more"
        return None

    def _nodes(self, order: tuple[int, ...]) -> frozenset[frozenset[int]]:
        each = self.per_node
        return frozenset(frozenset(order[begin : begin + each]) for begin in range(0, len(order), each))


def mirrored(transfers: Sequence[Transfer], add: bool) -> list[Transfer]:
    """The transfers run backwards: of a gather that copies, the reduction that adds; of a reduction, the gather.

    A gather brings each piece from its member to every other one exactly once, along a tree; backwards along that tree
    every contribution reaches the piece's member exactly once.
    """
    return [Transfer(t.dst, t.src, t.to, t.chunk, t.count, add, t.channel) for t in reversed(transfers)]


def in_time(timed: Iterable[tuple[int, Transfer]]) -> tuple[Transfer, ...]:
    """The transfers by their stage; those of one stage in the order given."""
    return tuple(transfer for _, transfer in sorted(timed, key=lambda entry: entry[0]))


def cut(pairs: Sequence[tuple[int, int]], slices: int) -> list[list[tuple[int, int, int]]]:
    """Chunks to move, as (from, to), in up to `slices` even parts one after the other; each part as runs of neighbours
    (from, to, count)."""
    slices = min(slices, len(pairs))
    each, more = divmod(len(pairs), slices)
    out, begin = [], 0
    for part in range(slices):
        end = begin + each + (part < more)
        out.append(_runs(sorted(pairs[begin:end])))
        begin = end
    return out


def _runs(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    runs: list[tuple[int, int, int]] = []
    for chunk, to in pairs:
        if runs and (chunk, to) == (runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2]):
            runs[-1] = (*runs[-1][:2], runs[-1][2] + 1)
        else:
            runs.append((chunk, to, 1))
    return runs
