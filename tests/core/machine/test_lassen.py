"""Lassen: its node's links, its tapered uplinks and what a ring's narrowest link is, by hand."""

from collections import Counter

import pytest

from simfrontier.core.collectives import load_library
from simfrontier.core.cost import EqualGroups
from simfrontier.core.machine import Machine, load_machine
from simfrontier.core.network import Fabric
from simfrontier.core.network.routes import route
from tests.core.network.brute import limits


@pytest.fixture(scope="module")
def lassen() -> Machine:
    return load_machine("lassen")


def test_two_rails_and_a_taper_of_two(lassen: Machine) -> None:
    tree = lassen.fat_tree
    assert tree is not None
    assert tree.bytes_per_s == 18 * 25e9 / 2 == 225e9
    assert tree.num_leaves * tree.nodes_per_leaf == 810
    one_rail = load_machine("lassen", {"link_classes.nic.bytes_per_s": 6.25e9}).fat_tree
    assert one_rail is not None and one_rail.bytes_per_s == 112.5e9


def test_a_node_is_two_pairs_joined_by_halves_of_the_x_bus(lassen: Machine) -> None:
    joins = [link for link in lassen.node.links if isinstance(link.src, int) and isinstance(link.dst, int)]
    assert Counter(link.link_class for link in joins) == {"nvlink3": 4, "xbus": 4}
    # each way over the bus: 2 * 32 of 64 GB/s
    assert sum(link.bytes_per_s for link in joins if link.name in ("xbus 1>2", "xbus 0>3")) == 64e9
    assert [lassen.node.links[link].name for link in lassen.node.route(0, 2)] == ["nvlink 0>1", "xbus 1>2"]
    assert lassen.node.nic_of == (0, 0, 1, 1)


def test_the_narrowest_link_of_a_ring(lassen: Machine) -> None:
    """In the ranks' order, one channel. Inside a node all goes over each half of the X-Bus. Over nodes each NIC carries
    all one way; only one node under a leaf sends to another leaf, which has 225 GB/s of uplinks for it."""
    library = load_library("mvapich2-gdr")
    assert limits(EqualGroups(lassen, 4), "ring", library) == {"nvlink3": 75e9, "xbus": 32e9}
    assert limits(EqualGroups(lassen, 8), "ring", library)["nic"] == 12.5e9
    across = limits(EqualGroups(lassen, 36 * 4), "ring", library)
    assert (across["nic"], across["uplink"]) == (12.5e9, 225e9)


def test_rings_of_equal_positions_share_the_nics_and_uplinks(lassen: Machine) -> None:
    """Four rings, one per position of a node: two share a NIC of 12.5 GB/s, all four a leaf's uplinks of 225."""
    found = limits(EqualGroups(lassen, 36 * 4, stride=4), "ring", load_library("mvapich2-gdr"))
    assert (found["nic"], found["uplink"]) == (6.25e9, 225e9 / 4)


def test_all_to_alls_over_leaves_are_held_up_by_the_taper(lassen: Machine) -> None:
    """36 nodes: the 72 devices under a leaf each send 72/143 out of it, over 225 GB/s; 2 devices of a NIC 140/143."""
    found = limits(EqualGroups(lassen, 36 * 4), "direct", load_library("mvapich2-gdr"))
    assert found["uplink"] == pytest.approx(225e9 * 143 / 72 / 72)
    assert found["nic"] == pytest.approx(12.5e9 * 143 / 140 / 2)


def test_a_route_between_two_leaves(lassen: Machine) -> None:
    fabric = Fabric.build(lassen, 20)
    names = [fabric.describe(link) for link in route(fabric, 1, 18 * 4 + 3)]
    assert names == [
        "node 0 nvlink 1>0",
        "node 0 pcie 0>nic0",
        "node 0 nic0>net",
        "leaf 0 up",
        "leaf 1 down",
        "node 18 net>nic1",
        "node 18 pcie nic1>2",
        "node 18 nvlink 2>3",
    ]
    near = [fabric.describe(link) for link in route(fabric, 1, 17 * 4)]
    assert not any(name.startswith("leaf") for name in near)
