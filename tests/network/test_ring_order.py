"""Rings that follow the ranks, in the fluid patterns: one channel, positions ascending, node after node, closed."""

import numpy as np

from simfrontier.collectives.algorithms.ring import ring_loads as ring
from simfrontier.machine import load_machine
from simfrontier.network import Fabric
from simfrontier.network.template import orders

TOY = Fabric.build(load_machine("toy-cluster"), 2)  # rings 0-1-2-3; NIC 0 on device 1, NIC 1 on device 3


def loads(groups: list[list[int]]) -> dict[str, float]:
    """Bytes on every wire per byte that a rank sends."""
    fabric = Fabric.build(load_machine("toy-cluster"), 2)
    pattern = ring(fabric, np.array(groups), {}, "ranks")
    out: dict[str, float] = {}
    for link, weight in zip(pattern.link[: pattern.num_wire_loads], pattern.weight, strict=False):
        out[fabric.describe(int(link))] = out.get(fabric.describe(int(link)), 0.0) + float(weight)
    return out


def test_a_ring_of_all_ranks_by_hand() -> None:
    """0>1>2>3, 3 by its own NIC 1 to device 0 of the next node, whose NIC 0 hangs on device 1: so 1>0 there."""
    inside = ("xgmi 0>1", "xgmi 1>2", "xgmi 2>3", "xgmi 1>0")
    outside = ("pcie 3>nic1", "nic1>net", "net>nic0", "pcie nic0>1")
    assert loads([list(range(8))]) == {f"node {node} {name}": 1.0 for node in (0, 1) for name in (*inside, *outside)}


def test_what_has_no_link_goes_by_others() -> None:
    """Devices 0 and 2 of a node, and 1 and 3: 0>2 and back by way of a neighbour; two hops each way and pair."""
    result = loads([[0, 2], [1, 3], [4, 6], [5, 7]])
    assert sum(result.values()) == 2 * 2 * 4
    assert all("xgmi" in name for name in result)


def test_the_order_of_a_node_is_its_positions() -> None:
    node = TOY.machine.node
    assert orders(node, 0b1101, True, "ranks") == [[0, 2, 3]]
    assert orders(node, 0b1101, False, "ranks") == [[0, 2, 3]]
    assert len(orders(node, 0b1111, True)) == 2


def test_edges_are_counted_once() -> None:
    """Eight edges: two cross the network, four are in packages (0>1, 2>3), two between packages of a node (1>2)."""
    pattern = ring(TOY, np.arange(8)[None], {}, "ranks")
    assert pattern.edges.tolist() == [[4, 2, 2]] and pattern.divisor == 1
