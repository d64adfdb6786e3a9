"""The wiring of a fabric is the fabric: the simulator's links, rates and routes, by the simulator's names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from simfrontier.core.machine import Machine, Packets, load_machine
from simfrontier.core.network import Fabric
from simfrontier.core.network.routes import route
from simfrontier_extras.emulation.scenario_keys import Emulation, emulated
from simfrontier_extras.emulation.wiring import load_wiring, save_wiring, wiring_of
from tests.perturbed import perturbed

# 1434 bytes of a message and 66 around them are 1500 on the wire, 1486 of them IP's
PACKETS = Packets(payload_bytes=1434, header_bytes=66, message_bytes=0, reply_bytes=0, reply_message_bytes=0)


def packed(name: str) -> Machine:
    return replace(load_machine(name), packets=PACKETS)


FRONTIER = packed("frontier")


def test_two_nodes_of_frontier() -> None:
    # per node 8 GCDs and 4 NICs, one switch; per node 12 links between GCDs, and per NIC one to its GCD and one to the
    # switch: 2 * (12 + 8) links of two directions
    fabric = Fabric.build(FRONTIER, 2)
    wiring = wiring_of(fabric, "two nodes")
    assert (len(wiring.boxes), len(wiring.cables)) == (25, 80)
    assert (wiring.title, wiring.packet_bytes, len(wiring.ranks)) == ("two nodes", 1486, 16)
    assert wiring.ranks[0] == "node 0 gcd 0" and wiring.ranks[15] == "node 1 gcd 7"
    for number, cable in enumerate(wiring.cables):
        assert (cable.name, cable.bytes_per_s) == (fabric.describe(number), fabric.capacity[number])
        assert cable.link_class == fabric.class_names[fabric.link_class[number]]
        assert cable.burst_bytes == 1500  # no class of Frontier's links has a burst: a packet is the least
    up = next(cable for cable in wiring.cables if cable.name == "node 1 nic2>net")
    assert (up.src, up.dst, up.link_class) == ("node 1 nic2", "net", "nic")


def test_routes_are_the_simulators(tmp_path: Path) -> None:
    fabric = Fabric.build(FRONTIER, 2)
    wiring = wiring_of(fabric, "two nodes")
    for a in range(16):
        for b in range(16):
            assert wiring.routes[a][b] == route(fabric, a, b)
    # GCD 0 has no NIC of its own: by the other GCD of its package, and on the far side likewise
    names = [wiring.cables[number].name for number in wiring.routes[0][8]]
    assert names == [
        "node 0 xgmi 0>1",
        "node 0 pcie 1>nic0",
        "node 0 nic0>net",
        "node 1 net>nic0",
        "node 1 pcie nic0>1",
        "node 1 xgmi 1>0",
    ]
    save_wiring(wiring, tmp_path / "wiring.json")
    assert load_wiring(tmp_path / "wiring.json") == wiring  # reading follows every route from box to box


def test_a_slow_link_is_slow_and_a_burst_is_the_classs() -> None:
    classes = {name: replace(each, burst_bytes=9000.0) for name, each in FRONTIER.link_classes.items()}
    machine = replace(FRONTIER, link_classes=classes)
    slow = perturbed(links={(1, "nic3>net"): 0.5})
    well, ill = (wiring_of(Fabric.build(machine, 2, *each), "x") for each in ((), (slow,)))
    differing = [
        (a.name, b.bytes_per_s / a.bytes_per_s) for a, b in zip(well.cables, ill.cables, strict=True) if a != b
    ]
    assert differing == [("node 1 nic3>net", 0.5)]
    assert {cable.burst_bytes for cable in well.cables} == {9000}


def test_a_tree_is_laid_out_with_a_box_per_leaf_and_a_spine(tmp_path: Path) -> None:
    fabric = Fabric.build(emulated(load_machine("toy-tree"), Emulation(scale=1e-3)), 3)
    wiring = wiring_of(fabric, "x")
    assert [box for box in wiring.boxes if not box.startswith("node")] == ["leaf 0", "leaf 1", "spine"]
    assert len(wiring.cables) == 3 * 16 + 2 * 2
    cables = {cable.name: cable for cable in wiring.cables}
    up, down = cables["leaf 0 up"], cables["leaf 1 down"]
    assert (up.src, up.dst, up.bytes_per_s, up.link_class) == ("leaf 0", "spine", 1e6, "uplink")
    assert (down.src, down.dst) == ("spine", "leaf 1")
    assert cables["node 2 nic0>net"].dst == "leaf 1"
    far, near = wiring.routes[0][8], wiring.routes[0][4]
    assert [wiring.cables[k].name for k in far[2:6]] == [
        "node 0 nic0>net",
        "leaf 0 up",
        "leaf 1 down",
        "node 2 net>nic0",
    ]
    assert not any(wiring.cables[k].name.startswith("leaf") for k in near)
    save_wiring(wiring, tmp_path / "wiring.json")
    assert load_wiring(tmp_path / "wiring.json") == wiring  # reading follows every route from box to box
