"""The emulated machine: rates scaled, everything else as it was; what cannot be emulated is refused in one line."""

import pytest

from simfrontier.core.machine import FatTree, load_machine
from simfrontier_extras.emulation.scenario_keys import Emulation, emulated


def test_rates_are_scaled_and_the_graph_stays() -> None:
    machine = load_machine("frontier")
    small = emulated(machine, Emulation(scale=2.5e-5))
    # a NIC: 25e9 bytes/s * 2.5e-5 = 625,000 bytes/s; a package link: 200e9 * 2.5e-5 = 5e6
    assert small.link_classes["nic"].bytes_per_s == pytest.approx(625e3)
    assert small.node.links[0].bytes_per_s == pytest.approx(5e6)
    assert [(link.name, link.src, link.dst) for link in small.node.links] == [
        (link.name, link.src, link.dst) for link in machine.node.links
    ]
    assert small.node.routes == machine.node.routes and small.node.chains == machine.node.chains
    assert small.device.matmul_flops_per_s == pytest.approx(2.5e-5 * machine.device.matmul_flops_per_s)
    assert small.device.kernel_gap_s == machine.device.kernel_gap_s and small.device.hbm_bytes == 64e9
    assert [entry.key for entry in small.sources[-3:]] == [
        "emulation.scale",
        "emulation.packet_bytes",
        "emulation.burst_bytes",
    ]


def test_a_link_carries_headers_beside_payload() -> None:
    small = emulated(load_machine("frontier"), Emulation(scale=1e-5, packet_bytes=1500, burst_bytes=3000))
    # 1,500 bytes of IP hold 1,448 of TCP's payload (20 of IPv4, 32 of TCP); on the wire there are 14 more
    assert small.packets is not None and small.packets.payload_bytes == 1448
    assert {each.share for each in small.link_classes.values()} == {1448 / 1514}
    assert {each.burst_bytes for each in small.link_classes.values()} == {3000}


def test_an_emulated_tree_is_scaled_with_its_links() -> None:
    small = emulated(load_machine("toy-tree"), Emulation(scale=1e-3))
    assert small.fat_tree == FatTree(nodes_per_leaf=2, num_leaves=4, taper=4.0, bytes_per_s=1e6)
    assert small.link_classes["uplink"].bytes_per_s == 1e6
    assert small.link_classes["uplink"].share == small.link_classes["nic"].share
