"""Folding: rates of the quotient equal those of the whole, and the number of classes does not grow with the job."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from simfrontier.core.collectives.algorithms.ring import ring_loads as ring
from simfrontier.core.collectives.algorithms.tree import tree_loads as tree
from simfrontier.core.machine import HEALTHY, Perturbation, load_machine
from simfrontier.core.network import Fabric, Pattern, fold, local
from simfrontier.core.network.folding import number
from simfrontier.core.network.hashes import number_hash
from tests.core.network.brute import folded_rates, full_rates, six_patterns
from tests.perturbed import perturbed

FRONTIER = load_machine("frontier")
CLUSTER = load_machine("toy-cluster")

FAULTS: dict[str, Perturbation] = {
    "healthy": HEALTHY,
    "slow device": perturbed(slow={5: 0.5}),
    "wire in a package": perturbed(links={(1, "xgmi 0>1"): 0.5}),
    "nic": perturbed(links={(1, "nic1>net"): 0.5}),
    "memory": perturbed(links={(0, "hbm 2"): 0.5}),
    "slow device and wire": perturbed(slow={3: 0.7}, links={(1, "xgmi 2>1"): 0.4}),
}
HBM = {"world": 2.0, "node": 30.0, "package": 2.0, "cross": 60.0, "cross direct": 2.0, "tree": 3.0, "local": 1.0}


def patterns_of(fabric: Fabric) -> dict[str, Pattern]:
    return six_patterns(fabric) | {"tree": tree(fabric, np.arange(fabric.num_ranks)[None, :], {})}


def assert_same_rates(fabric: Fabric, patterns: dict[str, Pattern], colour: NDArray[np.int64] | None = None) -> None:
    folding = fold(fabric, patterns, colour)
    whole, folded = full_rates(fabric, patterns, HBM), folded_rates(folding, patterns, HBM)
    for key in patterns:
        assert folded[key] == pytest.approx(whole[key], rel=1e-9), key


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("name", "num_nodes"), [("frontier", 2), ("toy-cluster", 7), ("toy-tree", 5)])
def test_folded_rates_equal_full_rates(name: str, num_nodes: int, fault: str) -> None:
    perturbation = FAULTS[fault]
    if name == "frontier" and fault.endswith("wire"):
        perturbation = perturbed(slow={3: 0.7}, links={(1, "xgmi 2>3"): 0.4})
    fabric = Fabric.build(load_machine(name), num_nodes, perturbation)
    patterns = patterns_of(fabric)
    for size in (2, len(patterns)):
        for keys in combinations(patterns, size):
            assert_same_rates(fabric, {key: patterns[key] for key in keys})


@given(st.lists(st.integers(0, 2), min_size=24, max_size=24), st.sampled_from(sorted(HBM)))
@settings(deadline=None, max_examples=25)
def test_any_colouring_of_ranks_keeps_the_rates(colours: list[int], dropped: str) -> None:
    fabric = Fabric.build(CLUSTER, 6, perturbed(links={(2, "xgmi 3>0"): 0.5}))
    patterns = {key: pattern for key, pattern in patterns_of(fabric).items() if key != dropped}
    assert_same_rates(fabric, patterns, np.array(colours))


def test_frontier_has_four_rank_classes_at_every_size() -> None:
    """Even and odd GCDs, each in two kinds of packages: as long as all nodes are in one dragonfly group, links too."""
    counts = {}
    for num_nodes in (2, 8, 64, 128, 1024):
        fabric = Fabric.build(FRONTIER, num_nodes)
        folding = fold(fabric, six_patterns(fabric))
        counts[num_nodes] = (folding.num_rank_classes, folding.num_link_classes)
        assert folding.rank_count.tolist() == [2 * num_nodes] * 4
    assert counts[2] == counts[8] == counts[64] == counts[128]
    assert counts[1024][0] == 4 and counts[1024][1] <= counts[2][1] + 8  # and a few classes of global pools


def test_a_slow_rank_splits_its_partners_from_the_rest() -> None:
    fabric = Fabric.build(FRONTIER, 4, perturbed(slow={9: 0.5}))
    ranks = np.arange(32)
    folding = fold(fabric, {"package": ring(fabric, ranks.reshape(-1, 2), {}), "local": local(fabric)})
    assert np.flatnonzero(folding.rank_class == folding.rank_class[9]).tolist() == [9]
    assert np.flatnonzero(folding.rank_class == folding.rank_class[8]).tolist() == [8]  # shares rank 9's ring
    assert folding.num_rank_classes == 3
    assert folding.count("package").tolist() == [15, 1]
    assert folding.members("package") == (frozenset({0}), frozenset({1, 2}))


def test_column_splits_wires_memories_and_units() -> None:
    fabric = Fabric.build(FRONTIER, 4)
    cross = ring(fabric, np.arange(32).reshape(4, 8).T, {})
    folding = fold(fabric, {"cross": cross})
    assert folding.activity_class["cross"].tolist() == [0, 1] * 4  # even positions pass through the odd ones
    loads = {}
    for cls in (0, 1):
        column = folding.column("cross", cls)
        assert ((column.wire > 0).astype(int) + (column.hbm > 0) + (column.units > 0) == 1).all()
        # one memory and one set of compute units in each rank class; the peak is 1 byte of payload per byte of volume
        assert column.hbm.sum() == column.units.sum() == pytest.approx(1.0)
        loads[cls] = dict(zip(column.rows.tolist(), column.wire.tolist(), strict=True))
    nic = int(folding.link_class[fabric.link_named(0, "nic0>net")])
    shares = FRONTIER.link_classes
    # both move payload over the NIC at the same speed, whatever share the link in the package reaches
    assert loads[0][nic] == loads[1][nic] == pytest.approx(1.0 / shares["nic"].share)
    assert folding.capacity[nic] == 25e9
    package = int(folding.link_class[fabric.link_named(0, "xgmi 0>1")])
    assert loads[0][package] == pytest.approx(1.0 / shares["xgmi4"].share) and package not in loads[1]


def test_numbers_that_differ_by_rounding_have_one_hash() -> None:
    values = np.array([0.1 + 0.2, 0.3, 0.3 * (1 + 1e-9), 1.0, 1.0 - 2**-53, 2.0, 0.0])
    assert number(number_hash(values))[0].tolist() == [0, 0, 1, 2, 2, 3, 4]
