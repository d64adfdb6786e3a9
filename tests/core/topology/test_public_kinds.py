"""Kinds of topology files that clouds and RCCL publish, in small: PCI devices alone, links to oneself, speeds that no
NIC has, gfx942 and gfx950, RCCL's files before it had a version of its own."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.machine import load_machine
from simfrontier.core.machine.topology import NodeTopology, machine_document, read_node
from tests.core.topology.samples import bare, frontier, link, net
from tests.invoke import invoke

GEN4 = 'link_speed="16 GT/s" link_width="16"'


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "node.xml"
    path.write_text(text, encoding="utf-8")
    return path


def read(tmp_path: Path, text: str) -> NodeTopology:
    return read_node(written(tmp_path, text))


def pci(busid: str, of_class: str, inside: str = "") -> str:
    return f'<pci busid="{busid}" class="{of_class}" {GEN4}>{inside}</pci>'


def system(*cpus: str, version: int = 1) -> str:
    inside = "".join(f'<cpu numaid="{number}" affinity="ffff">{text}</cpu>' for number, text in enumerate(cpus))
    return f'<system version="{version}">{inside}</system>'


# As Azure's NDv4: at each CPU a bridge that is made up, with two GPUs and two HCAs in turn; CPUs are not in the order
# of bus ids. As AWS's P4d: bridges below bridges.
NDV4 = system(
    pci(
        "ffff:ff:01.0",
        "0x060400",
        pci("000b:00:00.0", "0x030200")
        + pci("0105:00:00.0", "0x020700")
        + pci("000c:00:00.0", "0x030200")
        + pci("0106:00:00.0", "0x020700"),
    ),
    pci(
        "ffff:ff:02.0",
        "0x060400",
        pci("0001:00:00.0", "0x030200")
        + pci("0101:00:00.0", "0x020700")
        + pci("0002:00:00.0", "0x030200")
        + pci("0102:00:00.0", "0x020700"),
    ),
)


def test_gpus_and_nics_are_known_by_their_class_where_a_file_has_pci_devices_alone(tmp_path: Path) -> None:
    node = read(tmp_path, NDV4)
    assert [(each.dev, each.busid, each.place.cpu) for each in node.devices] == [
        (0, "0001:00:00.0", 1),
        (1, "0002:00:00.0", 1),
        (2, "000b:00:00.0", 0),
        (3, "000c:00:00.0", 0),
    ]
    assert [(each.busid, each.bytes_per_s) for each in node.nics] == [
        (f"010{number}:00:00.0", None) for number in (1, 2, 5, 6)
    ]
    assert not node.links_known and not node.links


def test_a_link_to_oneself_is_passed_over_and_told(tmp_path: Path) -> None:
    """As Azure's NCv4 has it, beside links to others."""
    node = read(tmp_path, bare([link(0, 12) + link(1, 4), link(1, 12) + link(0, 4)]))
    assert (node.links, node.to_itself) == ({(0, 1): 4}, 24)
    assert (
        "links of devices to themselves: 24, which NCCL does not use\n" in invoke("topology", tmp_path / "node.xml").out
    )
    assert "24 links of devices to themselves" in machine_document(node, "perlmutter", "m", "node.xml").left_out


@pytest.mark.parametrize("speed", [200_000_000, 25_000_000_000, 10_000_001])
def test_a_speed_that_no_nic_has_is_told_and_the_rest_is_read(tmp_path: Path, speed: int) -> None:
    text = frontier().replace('speed="200000"', f'speed="{speed}"')
    node = read(tmp_path, text)
    assert len(node.links) == 12 and [nic.bytes_per_s for nic in node.nics] == [None] * 4 + [125e6]
    assert f"speed of a NIC not believed: {speed} Mbit/s" in invoke("topology", tmp_path / "node.xml").out
    made = machine_document(node, "lumi-g", "m", "node.xml")
    assert made.left_out[0] == f"the speed of NICs, {speed} Mbit/s, which no NIC has (it is that of lumi-g)"
    assert "nic" not in made.document.get("link_classes", {})


def instinct(arch: str) -> str:
    """Eight devices, each joined to each by one link, a NIC beside each."""
    cpus = []
    for half in (0, 1):
        inside = ""
        for dev in range(4 * half, 4 * half + 4):
            links = "".join(
                f'<xgmi target="0000:{other:02x}:00.0" count="1" tclass="0x120000"/>'
                for other in range(8)
                if other != dev
            )
            gpu = f'<gpu dev="{dev}" sm="304" gcn="{arch}" arch="38911" rank="{dev}" gdr="1">{links}</gpu>'
            nic = pci(f"0000:{16 + dev:02x}:00.0", "0x020700", net(dev, f"mlx5_{dev}", 400_000))
            inside += pci(f"0000:{dev:02x}:00.0", "0x120000", gpu) + nic
        cpus.append(inside)
    return system(*cpus, version=2)


# MI300X: AMD's data sheet; MI355X: 16 lanes of 38.4 Gb/s (AMD's CDNA 4 white paper).
@pytest.mark.parametrize(("arch", "rate"), [("gfx942", 64e9), ("942", 64e9), ("gfx950", 16 * 38.4e9 / 8)])
def test_nodes_of_mi300x_and_mi355x_come_in(tmp_path: Path, arch: str, rate: float) -> None:
    node = read(tmp_path, instinct(arch))
    assert dict(node.links) == dict.fromkeys(combinations(range(8), 2), 1)
    assert node.arch.link_bytes_per_s == rate
    out = tmp_path / "m.toml"
    ran = invoke("topology", tmp_path / "node.xml", "--base", "frontier", "--out", out)
    assert ran.code == 0 and f"speeds of {node.arch.name} devices (they are those of frontier)" in ran.out
    machine = load_machine(str(out))
    between = machine.node.links[: machine.node.num_inside]
    assert {each.bytes_per_s for each in between if isinstance(each.src, int) and isinstance(each.dst, int)} == {rate}


def test_rccls_files_of_version_1_are_read(tmp_path: Path) -> None:
    old = read(tmp_path, frontier().replace('version="2"', 'version="1"'))
    new = read(tmp_path, frontier())
    assert (old.medium, old.links, old.arch) == (new.medium, new.links, new.arch)
    mixed = bare([link(1) + link(1, 1, "xgmi"), link(0)])
    with pytest.raises(InputError, match="got <xgmi>, allowed: <nvlink>"):
        read(tmp_path, mixed)
