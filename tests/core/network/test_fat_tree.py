"""Fat trees: pool loads by hand and message by message, what leaves must arrive, and folding of what is alike.

The toy tree has 8 nodes under four leaves: 2 NICs of 1 GB/s per node, 1 GB/s up and down per leaf. A leaf has 8 ranks.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from simfrontier.core.collectives import load_library
from simfrontier.core.collectives.algorithms.direct import direct_loads as direct
from simfrontier.core.collectives.algorithms.ring import ring_loads as ring
from simfrontier.core.collectives.algorithms.tree import tree_loads as tree
from simfrontier.core.cost import EqualGroups
from simfrontier.core.machine import HEALTHY, Perturbation, load_machine
from simfrontier.core.network import Fabric, Pattern, fold
from tests.core.network.brute import brute, folded_rates, full_rates, wire_loads
from tests.core.network.six_patterns import six_patterns
from tests.perturbed import perturbed

TREE = load_machine("toy-tree")
LASSEN = load_machine("lassen")
HBM = {"world": 2.0, "node": 30.0, "package": 2.0, "cross": 60.0, "cross direct": 2.0, "tree": 3.0, "local": 1.0}


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


# ── message by message ──


@pytest.mark.parametrize("shape", ["ring", "direct"])
@pytest.mark.parametrize(("name", "num_nodes"), [("toy-tree", 5), ("lassen", 20)])
def test_loads_equal_those_of_single_messages(name: str, num_nodes: int, shape: str) -> None:
    fabric = Fabric.build(load_machine(name), num_nodes)
    ranks = np.arange(fabric.num_ranks)
    for groups in (ranks[None, :], ranks.reshape(-1, 4), ranks.reshape(-1, 4).T, ranks.reshape(-1, 2).T):
        pattern = (ring if shape == "ring" else direct)(fabric, groups, {})
        loads, edges = brute(fabric, groups, shape)
        assert wire_loads(pattern) == pytest.approx(loads, rel=1e-12)
        assert pattern.edges.tolist() == edges


# ── folding ──


@pytest.mark.parametrize(
    "fault",
    [HEALTHY, perturbed(slow={9: 0.5}), perturbed(links={(3, "nic1>net"): 0.5, (0, "xgmi 0>1"): 0.5})],
    ids=["healthy", "slow device", "links"],
)
def test_folded_rates_equal_full_rates(fault: Perturbation) -> None:
    fabric = Fabric.build(TREE, 5, fault)
    patterns = six_patterns(fabric) | {"tree": tree(fabric, world(fabric), {})}
    for keys in [*combinations(patterns, 2), tuple(patterns)]:
        some = {key: patterns[key] for key in keys}
        whole, folded = full_rates(fabric, some, HBM), folded_rates(fold(fabric, some), some, HBM)
        for key in keys:
            assert folded[key] == pytest.approx(whole[key], rel=1e-9), key


def test_ranks_fold_to_as_many_classes_at_every_size() -> None:
    """Whole leaves: which GPU of a node, whatever the number of leaves."""
    counts = set()
    for num_nodes in (36, 180, 792):
        fabric = Fabric.build(LASSEN, num_nodes)
        counts.add(fold(fabric, six_patterns(fabric)).num_rank_classes)
    assert len(counts) == 1 and counts <= {1, 2, 3, 4}


# ── single messages, boxes and cables ──


def test_a_taper_slows_all_to_alls_and_no_ring() -> None:
    """8 ranks under a leaf each send 24/31 up 1 GB/s; the 2 ranks of a NIC 28/31 each over 1 GB/s."""
    library = load_library("gloo")
    tapered, flat = (EqualGroups(load_machine("toy-tree", {"fat_tree.taper": taper}), 32) for taper in (4.0, 1.0))
    assert tapered.sent_per_s("direct", library) == pytest.approx(1e9 * 31 / (8 * 24))
    assert flat.sent_per_s("direct", library) == pytest.approx(1e9 * 31 / (2 * 28))
    assert tapered.sent_per_s("ring", library) == flat.sent_per_s("ring", library) == pytest.approx(1e9)
