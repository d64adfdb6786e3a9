"""Fabric: ids, capacities and placement of links, and their degradation."""

import numpy as np

from simfrontier.core.machine import load_machine
from simfrontier.core.network import Fabric, ResourceKind
from tests.perturbed import perturbed

CLUSTER = load_machine("toy-cluster")  # nodes of 4 devices and 16 wires, 4 groups of 4 nodes


def test_links_are_wires_then_memories_then_units_then_pools() -> None:
    fabric = Fabric.build(CLUSTER, 5)
    assert (fabric.hbm_base, fabric.units_base, fabric.pool_base, fabric.num_links) == (80, 100, 120, 136)
    assert fabric.capacity[16:32].tolist() == [10e9] * 8 + [10e9, 10e9, 1e9, 1e9] * 2
    assert fabric.capacity[[80, 100, 120]].tolist() == [100e9, 10.0, 2e9]
    assert (
        fabric.kind.tolist()
        == [ResourceKind.WIRE] * 80 + [ResourceKind.HBM] * 20 + [ResourceKind.UNITS] * 20 + [ResourceKind.WIRE] * 16
    )
    assert [fabric.class_names[i] for i in fabric.link_class[[0, 8, 10, 80, 100, 135]]] == [
        "xgmi",
        "pcie",
        "nic",
        "hbm",
        "compute units",
        "global",
    ]


def test_part_of_a_node_and_placement() -> None:
    fabric = Fabric.build(load_machine("toy-quad"), 1, num_devices=2)
    assert fabric.num_ranks == 2 and fabric.num_devices == 4
    seats = np.array([3, 1])
    fabric = Fabric.build(load_machine("toy-quad"), 1, num_devices=2, placement=seats)
    assert fabric.hbm_of.tolist() == [fabric.hbm_base + 3, fabric.hbm_base + 1]
    seats[0] = 0  # still the caller's own


def test_perturbation_scales_speed_wires_memories_and_pools() -> None:
    fabric = Fabric.build(
        CLUSTER,
        5,
        perturbed(slow={3: 0.5}, links={(1, "net>nic0"): 0.25, (2, "hbm 1"): 0.5}, pools={(0, 2): 0.1}),
        placement=np.arange(20)[::-1],
    )
    assert fabric.speed[16] == 0.5 and fabric.speed.sum() == 19.5  # rank 16 sits on device 3
    assert fabric.capacity[fabric.link_named(1, "net>nic0")] == 0.25e9
    assert fabric.capacity[fabric.link_named(2, "hbm 1")] == 50e9
    assert fabric.capacity[fabric.pool_base + 2] == 0.2e9
