"""Pools of dragonflies and fat trees: loads by hand, detours, and folding of what is alike.

The toy tree has 8 nodes under four leaves: 2 NICs of 1 GB/s per node, 1 GB/s up and down per leaf. A leaf has 8 ranks.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from simfrontier.core.collectives import load_library
from simfrontier.core.collectives.algorithms.direct import direct_loads as direct
from simfrontier.core.collectives.algorithms.ring import ring_loads as ring
from simfrontier.core.collectives.algorithms.tree import tree_loads as tree
from simfrontier.core.cost import EqualGroups
from simfrontier.core.machine import load_machine
from simfrontier.core.network import Fabric, Pattern, fold
from simfrontier.core.network.pools import DragonflyPools
from tests.core.network.brute import six_patterns, wire_loads

TREE = load_machine("toy-tree")
LASSEN = load_machine("lassen")


def world(fabric: Fabric) -> NDArray[np.int64]:
    return np.arange(fabric.num_ranks)[None, :]


def leaves(fabric: Fabric, pattern: Pattern, activity: int = 0) -> dict[str, float]:
    loads = {fabric.describe(link): w for (a, link), w in wire_loads(pattern).items() if a == activity}
    return {name: weight for name, weight in loads.items() if name.startswith("leaf")}


def alike(weight: float, count: int) -> dict[str, float]:
    return {f"leaf {leaf} {way}": weight for leaf in range(count) for way in ("up", "down")}


# ── links ──


def test_every_leaf_of_the_job_has_a_pool_each_way() -> None:
    fabric = Fabric.build(TREE, 5)  # three leaves, the last with one node
    assert fabric.num_pool_groups == 3 and fabric.num_links - fabric.pool_base == 6
    assert [fabric.describe(link) for link in range(fabric.pool_base, fabric.num_links)] == [
        "leaf 0 up",
        "leaf 0 down",
        "leaf 1 up",
        "leaf 1 down",
        "leaf 2 up",
        "leaf 2 down",
    ]
    assert fabric.capacity[fabric.pool_base :].tolist() == [1e9] * 6
    assert {fabric.class_names[number] for number in fabric.link_class[fabric.pool_base :]} == {"uplink"}


def test_a_job_below_one_leaf_has_no_pools() -> None:
    fabric = Fabric.build(TREE, 2)
    assert fabric.num_pool_groups == 0 and fabric.num_links == fabric.pool_base
    assert Fabric.build(LASSEN, 18).num_pool_groups == 0 and Fabric.build(LASSEN, 19).num_pool_groups == 2
    assert Fabric.build(LASSEN, 795).num_pool_groups == 45


# ── loads by hand ──


def test_a_ring_over_all_nodes_crosses_each_leaf_once() -> None:
    # both chains carry half; node 1 sends to node 2, 3 to 4, 5 to 6, and 7 back to 0
    fabric = Fabric.build(TREE, 8)
    pattern = ring(fabric, world(fabric), {})
    assert leaves(fabric, pattern) == alike(1.0, 4)
    assert pattern.peak.tolist() == [1.0]


def test_all_to_alls_over_leaves_of_unequal_size() -> None:
    # 5 nodes: 8, 8 and 4 members; 1/19 from each to each: 8 * 12, 8 * 12 and 4 * 16 of them leave
    fabric = Fabric.build(TREE, 5)
    result = leaves(fabric, direct(fabric, world(fabric), {}))
    assert result == pytest.approx(
        {f"leaf {leaf} {way}": count / 19 for leaf, count in enumerate((96, 96, 64)) for way in ("up", "down")}
    )


def test_a_double_tree_on_three_nodes() -> None:
    # nodes 0 and 1 under leaf 0, node 2 under leaf 1. First tree: 2 below 0, 1 below 2; second: 0 below 1, 2 below 0.
    # Of the four edges 0-2, 2-1 and 2-0 cross; half of the vector each way on each
    fabric = Fabric.build(TREE, 3)
    assert leaves(fabric, tree(fabric, world(fabric), {})) == pytest.approx(alike(1.5, 2))


def test_ranks_fold_to_as_many_classes_at_every_size() -> None:
    """Whole leaves: which GPU of a node, whatever the number of leaves."""
    counts = set()
    for num_nodes in (36, 180, 792):
        fabric = Fabric.build(LASSEN, num_nodes)
        counts.add(fold(fabric, six_patterns(fabric)).num_rank_classes)
    assert len(counts) == 1 and counts <= {1, 2, 3, 4}


def test_a_taper_slows_all_to_alls_and_no_ring() -> None:
    """8 ranks under a leaf each send 24/31 up 1 GB/s; the 2 ranks of a NIC 28/31 each over 1 GB/s."""
    library = load_library("gloo")
    tapered, flat = (EqualGroups(load_machine("toy-tree", {"fat_tree.taper": taper}), 32) for taper in (4.0, 1.0))
    assert tapered.sent_per_s("direct", library) == pytest.approx(1e9 * 31 / (8 * 24))
    assert flat.sent_per_s("direct", library) == pytest.approx(1e9 * 31 / (2 * 28))
    assert tapered.sent_per_s("ring", library) == flat.sent_per_s("ring", library) == pytest.approx(1e9)


# ── dragonflies ──


def fly_loads(num_groups: int, share: float, *demands: tuple[int, int, float]) -> dict[tuple[int, int], float]:
    """The load of every pool (from group, to group) that has one, of demands of one activity."""
    pools = DragonflyPools(nodes_per_group=4, num_groups=num_groups, nonminimal_share=share)
    source, target, amount = (np.array(each) for each in zip(*demands, strict=True))
    _, pool, load = pools.loads(np.zeros(len(source), np.int64), source, target, amount.astype(float))
    return {divmod(key, num_groups): value for key, value in zip(pool.tolist(), load.tolist(), strict=True)}


def test_of_four_groups_each_third_one_carries_an_equal_part() -> None:
    """u = 1/2 of 8, over two third groups: 2 each way; 4 go straight."""
    expected = {(0, 1): 4.0, **{pool: 2.0 for third in (2, 3) for pool in ((0, third), (third, 1))}}
    assert fly_loads(4, 0.5, (0, 1, 8.0)) == expected


def test_two_groups_have_no_way_round_and_traffic_inside_a_group_no_pool() -> None:
    assert fly_loads(2, 0.5, (0, 1, 8.0), (1, 1, 3.0)) == {(0, 1): 8.0}
    assert fly_loads(3, 0.5, (1, 1, 3.0)) == {}


def test_a_detour_needs_both_of_its_pools() -> None:
    """From group 0 to group 1 of four, 0>1 dead: by way of group 2 or 3; of neither whose first or second pool is
    dead."""
    pools = DragonflyPools(nodes_per_group=4, num_groups=4, nonminimal_share=0.5)
    pool = {(a, b): 4 * a + b for a in range(4) for b in range(4)}

    def ways(*dead: tuple[int, int]) -> set[tuple[int, ...]]:
        is_dead = np.zeros(16, dtype=bool)
        is_dead[[pool[each] for each in ((0, 1), *dead)]] = True
        return set(pools.around(pool[0, 1], is_dead))

    by_2, by_3 = (pool[0, 2], pool[2, 1]), (pool[0, 3], pool[3, 1])
    assert ways() == {by_2, by_3}
    assert ways((2, 1)) == ways((0, 2)) == {by_3}
    assert ways((3, 1)) == ways((0, 3)) == {by_2}
    assert ways((1, 2), (2, 0)) == {by_2, by_3}
    assert ways((2, 1), (0, 3)) == set()
