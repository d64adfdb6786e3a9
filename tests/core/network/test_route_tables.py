"""The table of routes: Frontier's worked by hand, and those that single messages take on machines with pools."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from simfrontier.core.machine import JobNodes, load_machine
from simfrontier.core.network import Fabric
from simfrontier.core.network.routes import RouteTable, route, route_table

# Links of 200 GB/s join 0-1 2-3 4-5 6-7, of 100 GB/s 0-6 2-4, of 50 GB/s 0-2 1-3 1-5 3-7 4-6 5-7; NIC k is on GCD 2k+1.
BY_HAND = {
    (0, 1): ["xgmi 0>1"],
    (0, 4): ["xgmi 0>2", "xgmi 2>4"],  # by 6 it is as narrow; the link to 2 comes first
    (0, 3): ["xgmi 0>1", "xgmi 1>3"],  # by 2 it is as narrow; the link to 1 comes first
    (0, 7): ["xgmi 0>6", "xgmi 6>7"],  # the only way of two links
    (1, 6): ["xgmi 1>0", "xgmi 0>6"],
    (4, 7): ["xgmi 4>5", "xgmi 5>7"],  # by 6 it is as narrow; the link to 5 comes first
    (7, 0): ["xgmi 7>6", "xgmi 6>0"],
}


def joined(table: RouteTable, source: int, target: int) -> list[str]:
    """The links between two devices of a job, put together as the table's docstring says."""
    (a, here), (b, there) = divmod(source, table.devices_per_node), divmod(target, table.devices_per_node)
    if a == b:
        return [f"node {a} {name}" for name in table.within_node[here][there]]
    middle: list[str] = []
    if table.between is not None:
        groups = table.between.group_of_node
        first, second = a // table.between.nodes_per_group, b // table.between.nodes_per_group
        if groups is not None:
            first, second = groups[a], groups[b]
        if first != second:
            middle = [name.format(a=first, b=second) for name in table.between.route]
    out, back = table.to_network[here], table.from_network[there]
    return [*(f"node {a} {name}" for name in out), *middle, *(f"node {b} {name}" for name in back)]


def test_frontiers_routes_are_those_worked_by_hand() -> None:
    table = route_table(load_machine("frontier"), 256)
    for (a, b), way in BY_HAND.items():
        assert list(table.within_node[a][b]) == way, (a, b)
    assert table.to_network[2] == ("xgmi 2>3", "pcie 3>nic1", "nic1>net")
    assert table.to_network[3] == ("pcie 3>nic1", "nic1>net")
    assert table.from_network[4] == ("net>nic2", "pcie nic2>5", "xgmi 5>4")
    assert joined(table, 2, 200 * 8 + 5) == [  # node 200 is in the second group of 128
        *("node 0 xgmi 2>3", "node 0 pcie 3>nic1", "node 0 nic1>net"),
        "global 0>1",
        *("node 200 net>nic2", "node 200 pcie nic2>5"),
    ]


@pytest.mark.parametrize(
    ("machine", "num_nodes"), [("toy-cluster", 9), ("toy-tree", 5), ("toy-cluster", 2), ("box", 1)]
)
def test_the_table_has_the_routes_of_single_messages(machine: str, num_nodes: int) -> None:
    hardware = load_machine(machine)
    table, fabric = route_table(hardware, num_nodes), Fabric.build(hardware, num_nodes)
    for a, b in product(range(fabric.num_devices), repeat=2):
        assert joined(table, a, b) == [fabric.describe(link) for link in route(fabric, a, b)], (a, b)


def test_a_table_says_the_group_of_every_node_where_they_do_not_lie_in_order() -> None:
    hardware = replace(load_machine("toy-cluster"), job_nodes=JobNodes(placement="list", listed=(4, 0, 15)))
    table, fabric = route_table(hardware, 3), Fabric.build(hardware, 3)
    assert table.between is not None and table.between.group_of_node == (1, 0, 3)
    for a, b in product(range(fabric.num_devices), repeat=2):
        assert joined(table, a, b) == [fabric.describe(link) for link in route(fabric, a, b)], (a, b)
