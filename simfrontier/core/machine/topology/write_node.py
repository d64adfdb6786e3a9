"""Writing a node as a topology XML for NCCL_TOPO_FILE, with the attributes that NCCL's and RCCL's parsers need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from simfrontier.core.machine.topology.node_topology import NodeTopology, PciPlace, TopologyDevice, TopologyNic

BRIDGE, SWITCH, NIC_CLASS = "0x060400", "0x068000", "0x020000"
DEVICE_CLASS: Final = {"nvlink": "0x030200", "xgmi": "0x038000"}
# No fact of a machine's file: an AMD EPYC of Zen 3, as RCCL's models of such nodes have it.
CPU: Final = {"arch": "x86_64", "vendor": "AuthenticAMD", "familyid": "175", "modelid": "48"}
HIP_ARCH: Final = "38911"  # what RCCL's models have for all devices: flags of what they can do
SWITCH_BUSID: Final = "ffff:00:00.0"
MOST_CONNECTIONS: Final = "65536"


def xml_text(topology: NodeTopology, num_compute_units: int, remarks: Sequence[str] = ()) -> str:
    """Return the file. `num_compute_units` of a device is what RCCL has for `sm`; `remarks` are comments at its
    beginning."""
    system = Element("system", {"version": str(topology.version)})
    cpus = {number: SubElement(system, "cpu", _cpu(number)) for number in topology.cpus}
    pcis: dict[str, Element] = {}
    for at, device in enumerate(topology.devices):
        above = _pci(cpus, pcis, device.place, device.busid, DEVICE_CLASS[topology.medium])
        _add_gpu(above, topology, at, device, num_compute_units)
    for nic in topology.nics:
        above = _pci(cpus, pcis, nic.place, nic.busid, NIC_CLASS) if nic.busid else cpus[nic.place.cpu]
        last = above[-1] if len(above) and above[-1].tag == "nic" else SubElement(above, "nic")
        SubElement(last, "net", _net(nic))
    indent(system)
    comments = [f"<!-- {remark.replace('--', '- ')} -->" for remark in remarks]
    return "\n".join([*comments, tostring(system, encoding="unicode").replace(" />", "/>")]) + "\n"


def _cpu(number: int) -> dict[str, str]:
    return {"numaid": str(number), "affinity": f"{1 << max(0, number) % 32:08x}", **CPU}


def _pci(cpus: dict[int, Element], pcis: dict[str, Element], place: PciPlace, busid: str, own_class: str) -> Element:
    """Return the element of a PCI device, made with those of the bridges above it unless they are there."""
    above = cpus[place.cpu]
    classes = [BRIDGE] * len(place.bridges) + [own_class]
    for each, link, pci_class in zip((*place.bridges, busid), place.links, classes, strict=True):
        if each not in pcis:
            given = {"busid": each, "class": pci_class, "link_speed": link.speed, "link_width": str(link.width)}
            pcis[each] = SubElement(above, "pci", given)
        above = pcis[each]
    return above


def _add_gpu(above: Element, topology: NodeTopology, at: int, device: TopologyDevice, num_compute_units: int) -> None:
    arch = topology.arch
    given = {"dev": str(device.dev), "sm": str(arch.sm)}
    if topology.medium == "xgmi":
        given |= {"sm": str(num_compute_units), "gcn": arch.name, "arch": HIP_ARCH}
    gpu = SubElement(above, "gpu", {**given, "rank": str(at), "gdr": "1"})
    ends = [
        (topology.devices[b if at == a else a].busid, count, DEVICE_CLASS[topology.medium])
        for (a, b), count in sorted(topology.links.items())
        if at in (a, b)
    ]
    if topology.to_switch[at]:
        ends.append((SWITCH_BUSID, topology.to_switch[at], SWITCH))
    for target, count, target_class in ends:
        SubElement(gpu, topology.medium, {"target": target, "count": str(count), "tclass": target_class})


def _net(nic: TopologyNic) -> dict[str, str]:
    speed = {"name": nic.name, "dev": str(nic.dev), "speed": str(nic.mbit_per_s), "port": "1"}
    return {**speed, "guid": f"0x{nic.dev + 1:x}", "maxconn": MOST_CONNECTIONS, "gdr": "1"}
