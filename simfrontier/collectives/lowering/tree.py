"""Trees: an all-reduce on two binary trees over the nodes, half of the data each, with chains inside the nodes."""

from __future__ import annotations

import numpy as np

from simfrontier.collectives.double_tree import double_tree
from simfrontier.collectives.lowering.recipe import Recipe
from simfrontier.collectives.lowering.stages import in_time
from simfrontier.collectives.lowering.transfers import Lowered, Transfer
from simfrontier.schedule.ir import CollectiveKind


def tree(kind: CollectiveKind, recipe: Recipe) -> Lowered:
    """The partial sums run from each chain's tail to its head, from the heads up the tree, and the sum back down.

    Every channel carries an even share of the message, half of it on each tree (all of it on the chain where the group
    is on one node), slice after slice: slice k is k stages behind the first, and goes down while later ones come up.
    """
    shapes = _parents(recipe)
    parts = len(recipe.orders) * len(shapes) * recipe.slices
    timed: list[tuple[int, Transfer]] = []
    for part in range(parts):
        lane, slice_ = divmod(part, recipe.slices)
        order, parents = recipe.orders[lane // len(shapes)], shapes[lane % len(shapes)]
        height, depth = _height(parents), _depth(parents)
        chunk = part * recipe.size  # a part is as many chunks as there are members, and they stay together
        for place in sorted(range(recipe.size), key=lambda place: -height[place]):  # the long way down goes first
            if (parent := parents[place]) >= 0:
                low, high = order[place], order[parent]
                up = Transfer(low, high, chunk, chunk, recipe.size, True, lane)
                down = Transfer(high, low, chunk, chunk, recipe.size, False, lane)
                timed += [(height[place] + slice_, up), (max(height) + depth[place] - 1 + slice_, down)]
    return Lowered(kind=kind, size=recipe.size, parts=parts, transfers=in_time(timed))


def _parents(recipe: Recipe) -> list[list[int]]:
    """The parent's place for each place of an order (-1 for the root), in one tree or two."""
    each, nodes = recipe.per_node, recipe.num_nodes
    above_nodes = [np.array([-1])]
    if nodes > 1:
        above_nodes = list(double_tree(np.arange(nodes), np.full(nodes, nodes)))
    return [
        [place - 1 if place % each else max(-1, int(above[place // each]) * each) for place in range(recipe.size)]
        for above in above_nodes
    ]


def _depth(parents: list[int]) -> list[int]:
    """Edges from each place to the root."""
    out = []
    for place in range(len(parents)):
        edges, at = 0, place
        while parents[at] >= 0:
            edges, at = edges + 1, parents[at]
        out.append(edges)
    return out


def _height(parents: list[int]) -> list[int]:
    """Edges on the longest way from each place down to a leaf."""
    depth = _depth(parents)
    out = [0] * len(parents)
    for place in sorted(range(len(parents)), key=lambda place: -depth[place]):
        if parents[place] >= 0:
            out[parents[place]] = max(out[parents[place]], out[place] + 1)
    return out
