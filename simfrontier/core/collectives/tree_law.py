"""How long a message takes up and down a double binary tree over nodes: half of it on each tree, part after part."""

from __future__ import annotations

from simfrontier.core.machine import maximum


def tree_passage_s(depth: int, hop_s: float, volume_s: float) -> float:
    """Time from the first byte sent to the last one received, for trees that are `depth` hops between nodes high.

    `volume_s`: what the busiest link needs for all that it carries, of which one half goes up and the other down.

    While hops take long, links lie idle between the two halves: the last part waits for the first half to be sent, and
    then goes up and down, 2 d hops. While the halves take long, the busiest link never rests: it begins when the first
    part has come up to it, and what it sends last still has its own height to go down. The busiest node of a tree is
    one with two children and a parent, d - 2 hops above the lowest such node, so that d - 2 hops come before and d - 1
    after; of a tree of one or two hops it is next to the leaves.

        T = max(2 d a + V/2, max(1, 2 d - 3) a + V)
    """
    return maximum(2 * depth * hop_s + volume_s / 2, tree_waits_s(depth, hop_s) + volume_s)


def tree_waits_s(depth: int, hop_s: float) -> float:
    """The hops that not even a busiest link without rest can hide."""
    return max(1, 2 * depth - 3) * hop_s if depth else 0.0
