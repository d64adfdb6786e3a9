"""Known nodes: what their XML says, the machine that is made of it, and the XML of that machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.machine import CATALOG, Machine, catalog, load_machine
from simfrontier.core.machine.topology import (
    NodeTopology,
    arch_of_machine,
    machine_document,
    machine_text,
    placed_nics,
    read_node,
    topology_of,
    unknown_arch,
    xml_text,
)
from tests.core.topology.samples import FRONTIER_LINKS, PERLMUTTER_LINKS, bare, dgx_a100, frontier, link, perlmutter


def read(folder: Path, text: str) -> NodeTopology:
    path = folder / "node.xml"
    path.write_text(text, encoding="utf-8")
    return read_node(path)


def made(folder: Path, topology: NodeTopology, base: str) -> Machine:
    """The machine of a topology, by way of its file."""
    document = machine_document(topology, base, "made", "node.xml").document
    (folder / "made.toml").write_text(machine_text(document, ("Made.",)), encoding="utf-8")
    return load_machine(str(folder / "made.toml"))


def graph(topology: NodeTopology) -> tuple[object, ...]:
    """What has to survive: links with their numbers, those to switches, and which NIC of which speed is where."""
    placed = placed_nics(topology)
    nics = None if placed is None else (placed.device, placed.used[0].mbit_per_s, placed.bytes_per_s)
    return topology.arch, topology.links, topology.to_switch, len(topology.devices), nics


def bandwidths(machine: Machine) -> dict[tuple[object, object], float]:
    return {(link.src, link.dst): link.bytes_per_s for link in machine.node.links}


# ── Frontier: xgmi counted ──


def test_xgmi_links_of_frontier_are_counted(tmp_path: Path) -> None:
    topology = read(tmp_path, frontier())
    assert topology.links == FRONTIER_LINKS
    # 4 + 1 + 2 links of an even GCD, 4 + 1 + 1 of an odd one
    ends = [sum(count for pair, count in topology.links.items() if device in pair) for device in range(8)]
    assert ends == [7, 6, 7, 6, 7, 6, 7, 6] and sum(FRONTIER_LINKS.values()) == 26
    assert (topology.arch.name, topology.medium, topology.cpus) == ("gfx90a", "xgmi", (3, 1, 0, 2))


def test_frontiers_xml_is_frontiers_node(tmp_path: Path) -> None:
    """All but PCI, of which a dump says generation 4 and the documentation 50 GB/s."""
    machine, known = made(tmp_path, read(tmp_path, frontier()), "frontier"), load_machine("frontier")
    assert machine.node.rings == known.node.rings and machine.node.chains == known.node.chains
    assert machine.node.nic_device == (1, 3, 5, 7) and machine.node.routes == known.node.routes
    assert (machine.devices_per_node, machine.devices_per_package, machine.num_nodes) == (8, 2, 9408)
    changed = {key for key, rate in bandwidths(known).items() if bandwidths(machine)[key] != rate}
    assert changed == {(d, f"nic{k}") for k, d in enumerate((1, 3, 5, 7))} | {
        (f"nic{k}", d) for k, d in enumerate((1, 3, 5, 7))
    }
    # 16 GT/s on 16 lanes in 128b/130b: 16e9 / 8 * 16 * 128 / 130
    assert machine.link_classes["pcie"].bytes_per_s == pytest.approx(31.508e9, rel=1e-4)
    # 4, 2 and 1 links of 50 GB/s, with Frontier's shares
    rates = {name: machine.link_classes[name].bytes_per_s for name in ("xgmi4", "xgmi2", "xgmi1")}
    assert rates == {"xgmi4": 200e9, "xgmi2": 100e9, "xgmi1": 50e9}
    assert machine.link_classes["xgmi2"] == known.link_classes["xgmi2"]


def test_new_classes_have_the_share_and_the_start_up_of_the_nearest(tmp_path: Path) -> None:
    machine = made(tmp_path, read(tmp_path, frontier({**FRONTIER_LINKS, (0, 1): 3})), "frontier")
    like, new = machine.link_classes["xgmi4"], machine.link_classes["xgmi3"]
    assert (new.bytes_per_s, new.share) == (150e9, like.share)
    assert new.half_bytes / new.bytes_per_s == pytest.approx(like.half_bytes / like.bytes_per_s)
    (share,) = (number for number in machine.provenance() if number.key == "link_classes.xgmi3.share")
    assert (share.kind, share.source) == ("assumed", "as link class xgmi4 of frontier")


# ── others ──


def test_perlmutters_xml_is_perlmutters_node(tmp_path: Path) -> None:
    topology = read(tmp_path, perlmutter())
    assert topology.links == PERLMUTTER_LINKS and topology.arch.name == "sm80"
    machine, known = made(tmp_path, topology, "perlmutter"), load_machine("perlmutter")
    assert machine.node == known.node and machine.link_classes == known.link_classes


def test_a_dgx_has_a_switch_and_a_nic_for_each_device(tmp_path: Path) -> None:
    topology = read(tmp_path, dgx_a100())
    assert topology.links == {} and topology.to_switch == (12,) * 8  # six switches, two links to each
    placed = placed_nics(topology)
    assert placed is not None and [nic.name for nic in placed.used] == [f"mlx5_{k}" for k in range(8)]
    machine, known = made(tmp_path, topology, "a100-node"), load_machine("a100-node")
    assert machine.node == known.node and machine.link_classes == known.link_classes
    assert machine.link_classes["port"].bytes_per_s == 12 * 25e9


def test_a_node_on_a_base_of_another_shape_stands_alone(tmp_path: Path) -> None:
    """A machine file cannot take back what its base has: perlmutter's links are not in the file of a switch."""
    document = machine_document(read(tmp_path, dgx_a100()), "perlmutter", "made", "node.xml").document
    assert "base" not in document and set(document["node"]) == {"switch", "nics", "chains"}
    machine = made(tmp_path, read(tmp_path, dgx_a100()), "perlmutter")
    assert machine.node.has_switch and machine.device == load_machine("perlmutter").device


def test_two_parts_without_links_between_them_are_joined_through_cpus(tmp_path: Path) -> None:
    """Two pairs: paths 0-1 and 2-3, whose ends close a ring. 16 GT/s on 16 lanes are 31.5 GB/s."""
    pairs = bare([link(1, 4), link(0, 4), link(3, 4), link(2, 4)])
    machine = made(tmp_path, read(tmp_path, pairs), "perlmutter")
    assert machine.node.rings == ((0, 1, 2, 3), (3, 2, 1, 0))
    rates = bandwidths(machine)
    assert rates[0, 1] == rates[2, 3] == 100e9
    assert rates[1, 2] == rates[0, 3] == pytest.approx(31.508e9, rel=1e-4)
    (number,) = (each for each in machine.provenance() if each.key == "link_classes.host.share")
    assert number.kind == "assumed"


def test_links_of_other_devices_are_not_the_bases(tmp_path: Path) -> None:
    """Ten NVLinks of 20 GB/s have the bandwidth of Frontier's xgmi4, and are no xgmi."""
    topology = read(tmp_path, bare([link(1, 10), link(0, 10)]).replace('sm="80"', 'sm="60"'))
    document = machine_document(topology, "frontier", "made", "node.xml")
    assert document.document["node"]["links"]["pairs"] == {"nvlink10": [[0, 1]]}
    assert "speeds of sm60 devices (they are those of frontier)" in document.left_out
    assert bandwidths(made(tmp_path, topology, "frontier"))[0, 1] == 200e9


def test_pci_alone_is_taken_as_a_switch(tmp_path: Path) -> None:
    machine = made(tmp_path, read(tmp_path, bare(["", "", ""])), "perlmutter")
    assert machine.node.has_switch and machine.num_nodes == 1
    assert machine.link_classes["port"].bytes_per_s == pytest.approx(31.508e9, rel=1e-4)
    (number,) = (each for each in machine.provenance() if each.key == "node.switch")
    assert number.kind == "assumed"


def test_links_to_cpus_and_to_what_is_not_there_are_told(tmp_path: Path) -> None:
    to_cpu = '<nvlink target="0004:04:00.0" count="3" tclass="0x068001"/>'
    topology = read(tmp_path, bare([link(1) + to_cpu + link(7, 2), link(0)]))
    assert (topology.links, topology.to_cpu, topology.unmatched) == ({(0, 1): 1}, (3, 0), 2)
    left_out = machine_document(topology, "perlmutter", "made", "node.xml").left_out
    assert left_out == ("2 links to devices that are not in the file", "3 links between devices and CPUs")


@pytest.mark.parametrize(
    ("text", "base", "said"),
    [
        (
            bare([link(1) + '<nvlink target="0000:c4:00.0" count="2" tclass="0x068000"/>', link(0)]),
            "perlmutter",
            "devices with other links beside those to a switch",
        ),
        (
            bare([link(3), link(3), link(3), link(0) + link(1) + link(2)]),
            "perlmutter",
            "no path over devices 0, 1, 2, 3",
        ),
        (bare(["", ""]).replace("16.0 GT/s PCIe", "Unknown"), "perlmutter", "no links between devices, and PCI of unk"),
        (bare([link(1), link(0)]).replace('sm="80"', 'sm="35"'), "box", "what one nvlink of these devices carries is"),
    ],
    ids=("mixed", "star", "pci", "unknown"),
)
def test_what_a_machine_file_cannot_hold(tmp_path: Path, text: str, base: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        machine_document(read(tmp_path, text), base, "made", "node.xml")
    assert caught.value.what.startswith(said)


# ── every machine of the catalog ──


@pytest.mark.parametrize("name", [name for name in catalog() if not load_machine(name).node.has_bus])
def test_every_machine_of_the_catalog_goes_out_and_in(tmp_path: Path, name: str) -> None:
    machine = load_machine(name)
    topology = topology_of(machine, arch_of_machine(name) or unknown_arch("xgmi"))
    there = read(tmp_path, xml_text(topology, machine.device.num_compute_units))
    assert there == topology
    back = made(tmp_path, there, name)
    assert back.node == machine.node and back.link_classes == machine.link_classes
    assert (back.num_nodes, back.devices_per_node, back.devices_per_package, back.device) == (
        machine.num_nodes,
        machine.devices_per_node,
        machine.devices_per_package,
        machine.device,
    )


def test_links_of_the_catalog_in_numbers() -> None:
    """By hand from the sources in the files: 3 NVLinks of a V100 in a pair of Lassen's, 12 of an A100 and 18 of an H100
    to switches, 6 between two GH200."""

    def counts(name: str) -> tuple[set[int], set[int]]:
        arch = arch_of_machine(name)
        assert arch is not None and (CATALOG / f"{name}.toml").exists()
        topology = topology_of(load_machine(name), arch)
        return set(topology.links.values()), set(topology.to_switch)

    assert counts("frontier") == counts("lumi-g") == counts("mi250-node") == ({1, 2, 4}, {0})
    assert counts("lassen") == ({3}, {0}) and counts("alps") == ({6}, {0})
    assert counts("perlmutter") == ({4}, {0}) and counts("jean-zay-v100") == ({2}, {0})
    assert counts("el-capitan") == ({2}, {0}) and counts("mi300x-node") == counts("mi355x-node") == ({1}, {0})
    assert counts("h800-node") == (set(), {8}) and counts("gb300-nvl72") == counts("b200-node") == (set(), {18})
    assert counts("dgx-2") == (set(), {6}) and counts("selene") == (set(), {12}) and counts("eos") == (set(), {18})
