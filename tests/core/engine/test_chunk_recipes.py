"""Recipes that fidelity `chunk` runs: orders of rings, sizes of parts, and every recipe can be lowered."""

from __future__ import annotations

import numpy as np

from simfrontier.core.collectives import Library, Recipe, load_library, lower
from simfrontier.core.engine.transfers import TransferLists, lowered_schedule, recipe
from simfrontier.core.machine import load_machine
from simfrontier.core.network import Fabric
from simfrontier.core.program.mesh import Mesh
from tests.core.engine.steps import schedule, step

RCCL = load_library("rccl")
FRONTIER = load_machine("frontier")
CHAIN = [0, 1, 5, 4, 6, 7, 3, 2]  # Frontier's first


def made(
    ranks: list[int], algorithm: str = "ring", library: Library = RCCL, num_nodes: int = 2, num_bytes: int = 2**20
) -> Recipe:
    return recipe(Fabric.build(FRONTIER, num_nodes), np.array(ranks), algorithm, library, num_bytes)


def test_a_ring_over_two_nodes_runs_through_the_nodes_chains() -> None:
    result = made(list(range(16)))
    assert result.per_node == 8 and result.slices == 1 and len(result.orders) == 4
    assert list(result.orders[0]) == CHAIN + [8 + position for position in CHAIN]


def test_every_recipe_of_a_schedule_can_be_lowered() -> None:
    """zeropp has rings, trees and coded reductions, over several axes; recipes[i][g] is of that op's g-th group."""
    done = step(schedule("zeropp", Mesh((("node", 2), ("package", 4), ("gcd", 2)))), fidelity="analytic")
    result = lowered_schedule(done.pricing, "abc")
    assert result.digest == "abc"
    sizes = {len(recipes): recipes[0].size for recipes in result.recipes}
    assert all(groups * size == 16 for groups, size in sizes.items()) and len(sizes) > 1
    assert {one.algorithm for recipes in result.recipes for one in recipes} == {"ring", "tree", "direct"}
    assert all(one.fault() is None for recipes in result.recipes for one in recipes)


def test_sizes_are_those_of_whole_elements() -> None:
    """Ring of 2 in 2 parts: 5 elements of 2 bytes in a piece are 3 and 2; as an all-reduce, 10 in 4 chunks 3 3 2 2."""
    ring = Recipe(algorithm="ring", orders=((0, 1), (1, 0)), per_node=2)
    assert sorted(TransferLists.of(lower("all_gather", ring), True, None).sizes(20, 2)) == [4.0, 4.0, 6.0, 6.0]
    reduced = TransferLists.of(lower("all_reduce", ring), True, None).sizes(20, 2)
    assert sorted(reduced) == [4.0] * 4 + [6.0] * 4 and sum(reduced) == 2 * 20
