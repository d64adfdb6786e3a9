"""Two complementary binary trees over the nodes of a group, as NCCL lays them (src/graph/trees.cc)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.signedinteger[Any]]


def double_tree(order: Ints, num_nodes: Ints) -> tuple[Ints, Ints]:
    """Parents (-1 for the root) in two binary trees over places 0..num_nodes-1; inner in one is leaf in the other.

    First tree: clear the lowest set bit and set the one above it, or only clear it where that leads beyond the end.
    Second tree: the first one mirrored (even number of nodes) or shifted by one (odd).
    """

    def parents(place: Ints) -> Ints:
        bit = place & -place
        up = (place ^ bit) | (bit << 1)
        up = np.where(up >= num_nodes, place ^ bit, up)
        return np.where(place == 0, -1, up)

    mirrored = num_nodes % 2 == 0
    seen_as = np.where(mirrored, num_nodes - 1 - order, (order - 1) % num_nodes)
    up = parents(seen_as)
    back = np.where(mirrored, num_nodes - 1 - up, (up + 1) % num_nodes)
    return parents(order), np.where(up < 0, -1, back)
