"""Routes of a node whose devices share one bus, or have a port each of a switch: links, rings and shares by hand."""

from __future__ import annotations

import numpy as np
import pytest

from simfrontier.core.machine import load_machine, mesh_sizes
from simfrontier.core.network import solve


def test_every_pair_of_devices_goes_over_the_bus() -> None:
    node = load_machine("box").node
    assert [(link.name, link.link_class, link.src, link.dst) for link in node.links] == [("bus", "bus", "bus", "bus")]
    assert {node.route(a, b) for a in range(8) for b in range(8) if a != b} == {(0,)}
    assert {node.route(a, a) for a in range(8)} == {()}
    assert node.rings == ((0, 1, 2, 3, 4, 5, 6, 7), (7, 6, 5, 4, 3, 2, 1, 0))
    assert node.has_bus and not load_machine("frontier").node.has_bus


PORT = 300e9


def rates(name: str, *pairs: tuple[int, int]) -> list[float]:
    """Max-min fair bytes per second of copies that run at once, each from the first device to the second."""
    node = load_machine(name).node
    usage = np.zeros((len(node.links), len(pairs)))
    for copy, (a, b) in enumerate(pairs):
        usage[list(node.route(a, b)), copy] = 1.0
    capacity = np.array([link.bytes_per_s for link in node.links])
    alone = np.full(len(pairs), np.inf)
    return [float(rate) for rate in solve(usage, capacity, alone)]


def test_links_are_a_port_up_and_down_for_each_device() -> None:
    node = load_machine("a100-node").node
    between = [link for link in node.links if link.link_class == "port"]
    assert [(link.src, link.dst) for link in between[:4]] == [
        (0, "switch"),
        ("switch", 0),
        (1, "switch"),
        ("switch", 1),
    ]
    assert len(between) == 16
    assert node.has_switch
    assert not node.has_bus
    assert node.route(2, 5) == (4, 11)  # up from 2, down to 5
    assert node.route(3, 3) == ()


def test_disjoint_copies_share_nothing() -> None:
    assert rates("a100-node", (0, 1), (2, 3), (4, 5)) == [PORT] * 3
    assert rates("a100-node", (1, 0), (0, 1)) == [PORT] * 2  # nor do the two directions


def test_copies_to_one_device_share_its_port_down() -> None:
    """A third of 300 GB/s each. Device 1, which sends one of them, has 200 GB/s of its port up left for another."""
    assert rates("a100-node", (1, 0), (2, 0), (3, 0)) == pytest.approx([PORT / 3] * 3)
    assert rates("a100-node", (1, 0), (2, 0), (3, 0), (1, 4)) == pytest.approx([100e9, 100e9, 100e9, 200e9])


def test_a_ring_loads_every_port_once_each_way() -> None:
    node = load_machine("a100-node").node
    for ring in node.rings:
        loads = [0] * 16
        for a, b in zip(ring, (*ring[1:], ring[0]), strict=True):
            for link in node.route(a, b):
                loads[link] += 1
        assert loads == [1] * 16


@pytest.mark.parametrize(
    ("name", "devices", "nics"),
    [("selene", 8, 8), ("eos", 8, 8), ("jean-zay-a100", 8, 4), ("dgx-2", 16, 8), ("a100-40gb-node", 8, 8)],
)
def test_chains_enter_at_every_nic(name: str, devices: int, nics: int) -> None:
    machine = load_machine(name)
    assert (machine.devices_per_node, len(machine.node.nic_device)) == (devices, nics)
    entries = [chain[0] for chain in machine.node.chains[::2]]
    assert entries == list(machine.node.nic_device)


def test_an_nvlink_domain_has_a_nic_and_two_chains_a_device_and_a_job_may_take_a_part() -> None:
    for taken in (72, 64):
        machine = load_machine("gb200-nvl72", {"devices_per_node": float(taken)})
        assert (machine.devices_per_node, len(machine.node.nic_device)) == (taken, taken)
        assert machine.node.chains[2:4] == ((*range(1, taken), 0), (0, *range(taken - 1, 0, -1)))
        assert mesh_sizes(machine, 2 * taken)["node"] == 2
