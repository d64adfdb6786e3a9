"""Export of a machine's node as a topology XML for NCCL_TOPO_FILE, with the attributes that the parsers of NCCL and
RCCL need. Bus ids, CPUs and PCI bridges, which a machine file does not have, are invented."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from simfrontier.base.errors import InputError
from simfrontier.core.machine import Machine
from simfrontier.core.machine.form import NIC, PCIE, PORT
from simfrontier.core.machine.topology.derived_rings import joins_of
from simfrontier.core.machine.topology.device_arch import DeviceArch
from simfrontier.core.machine.topology.node_topology import (
    ROUNDED,
    UNKNOWN,
    NodeTopology,
    Pair,
    PciLink,
    PciPlace,
    TopologyDevice,
    TopologyNic,
    links_per_class,
    mbit,
    nearest_pci,
)

BRIDGE, SWITCH, NIC_CLASS = "0x060400", "0x068000", "0x020000"
DEVICE_CLASS: Final = {"nvlink": "0x030200", "xgmi": "0x038000"}
# No fact of a machine's file: an AMD EPYC of Zen 3, as RCCL's models of such nodes have it.
CPU: Final = {"arch": "x86_64", "vendor": "AuthenticAMD", "familyid": "175", "modelid": "48"}
HIP_ARCH: Final = "38911"  # what RCCL's models have for all devices: flags of what they can do
SWITCH_BUSID: Final = "ffff:00:00.0"
MOST_CONNECTIONS: Final = "65536"


def topology_of(machine: Machine, arch: DeviceArch) -> NodeTopology:
    """Return the topology of a machine's node with devices of architecture `arch`. Raises InputError if an XML cannot
    express the connections between the devices."""
    if machine.node.has_bus:
        raise InputError(f"devices of {machine.name} share a bus; allowed: machines whose nodes have links or a switch")
    counts = links_per_class(machine, arch)
    links = _links(machine, counts)
    num_devices = machine.devices_per_node
    to_switch = counts.get(PORT) if machine.node.has_switch else 0
    device_pci, nic_pci = _pci(machine, counts, arch)
    places = [_place(machine, device, device_pci) for device in range(num_devices)]
    devices = tuple(
        TopologyDevice(dev=device, busid=f"{device:04x}:02:00.0", place=place) for device, place in enumerate(places)
    )
    return NodeTopology(
        version=2 if arch.medium == "xgmi" else 1,
        arch=arch,
        medium=arch.medium,
        cpus=tuple(dict.fromkeys(place.cpu for place in places)),
        devices=devices,
        links=links,
        to_switch=(to_switch or 0,) * num_devices,
        to_cpu=(0,) * num_devices,
        nics=tuple(_nic(machine, nic, places, nic_pci) for nic in range(len(machine.node.nic_device))),
    )


def through_cpus(machine: Machine, topology: NodeTopology) -> tuple[Pair, ...]:
    """Return the pairs of devices that are joined in the machine but not in the XML: paths through CPUs, which NCCL
    finds by itself."""
    return tuple(pair for pair in _pairs(machine) if pair not in topology.links)


def _pairs(machine: Machine) -> dict[Pair, str]:
    return {
        (link.src, link.dst): link.link_class
        for link in machine.node.links[: machine.node.num_inside]
        if isinstance(link.src, int) and isinstance(link.dst, int) and link.src < link.dst
    }


def _links(machine: Machine, counts: dict[str, int | None]) -> dict[Pair, int]:
    """Return the number of links of each pair of devices. Pairs joined by something else than links of the architecture
    are omitted if they are exactly the joins that a reader of the XML adds by itself; otherwise InputError is
    raised."""
    pairs = _pairs(machine)
    links = {pair: count for pair, name in pairs.items() if (count := counts[name]) is not None}
    others = {pair: name for pair, name in pairs.items() if pair not in links}
    if others and others.keys() != set(joins_of(links, machine.devices_per_node)):
        name = next(iter(others.values()))
        rate = machine.link_classes[name].bytes_per_s
        text = f"link class {name} of {machine.name} has {rate:g} bytes/s, no whole number of links of these devices"
        raise InputError(f"{text}; an XML only counts links; allowed: --arch, which says what one carries")
    return links


def _pci(machine: Machine, counts: dict[str, int | None], arch: DeviceArch) -> tuple[PciLink, PciLink]:
    """Return the PCI link of devices and that of NICs. If a link class that joins the devices is not made of links of
    the architecture, the devices' PCI link has its bandwidth. Raises InputError if devices on a switch have a bandwidth
    that no PCI link has."""
    nic = nearest_pci(machine.link_classes[PCIE].bytes_per_s) if machine.node.nic_device else UNKNOWN
    joining = [machine.link_classes[name].bytes_per_s for name, count in counts.items() if count is None]
    if not joining:
        return nic, nic
    device = nearest_pci(min(joining))
    if machine.node.has_switch and not math.isclose(device.bytes_per_s or 0, joining[0], rel_tol=ROUNDED):
        text = (
            f"link class {PORT} of {machine.name} has {joining[0]:g} bytes/s, no whole number of links of {arch.name}"
        )
        raise InputError(f"{text}, and no PCI link; allowed: --arch, which says what one link carries")
    return device, nic


def _place(machine: Machine, device: int, pci: PciLink) -> PciPlace:
    """Return the PCI position of a device: a device with a NIC shares a PCI bridge with it, and the devices of a
    package share a CPU."""
    cpu = device // machine.devices_per_package if machine.devices_per_package > 1 else 0
    if device not in machine.node.nic_device:
        return PciPlace(cpu=cpu, links=(pci,))
    return PciPlace(cpu=cpu, bridges=(f"{device:04x}:01:00.0",), links=(pci, pci))


def _nic(machine: Machine, nic: int, places: list[PciPlace], pci: PciLink) -> TopologyNic:
    device = machine.node.nic_device[nic]
    place = places[device]
    return TopologyNic(
        dev=nic,
        name=f"nic{nic}",
        busid=f"{device:04x}:03:00.0",
        mbit_per_s=mbit(machine.link_classes[NIC].bytes_per_s),
        place=PciPlace(cpu=place.cpu, bridges=place.bridges, links=(place.links[0], pci)),
    )


# ── the text ──


def xml_text(topology: NodeTopology, num_compute_units: int, remarks: Sequence[str] = ()) -> str:
    """Return the text of the XML. `num_compute_units` per device is the value of the attribute `sm` in RCCL's files;
    `remarks` become comments at the beginning."""
    system = Element("system", {"version": str(topology.version)})
    cpus = {number: SubElement(system, "cpu", _cpu(number)) for number in topology.cpus}
    pcis: dict[str, Element] = {}
    for at, device in enumerate(topology.devices):
        above = _element(cpus, pcis, device.place, device.busid, DEVICE_CLASS[topology.medium])
        _add_gpu(above, topology, at, device, num_compute_units)
    for nic in topology.nics:
        above = _element(cpus, pcis, nic.place, nic.busid, NIC_CLASS) if nic.busid else cpus[nic.place.cpu]
        last = above[-1] if len(above) and above[-1].tag == "nic" else SubElement(above, "nic")
        SubElement(last, "net", _net(nic))
    indent(system)
    comments = [f"<!-- {remark.replace('--', '- ')} -->" for remark in remarks]
    return "\n".join([*comments, tostring(system, encoding="unicode").replace(" />", "/>")]) + "\n"


def _cpu(number: int) -> dict[str, str]:
    return {"numaid": str(number), "affinity": f"{1 << max(0, number) % 32:08x}", **CPU}


def _element(
    cpus: dict[int, Element], pcis: dict[str, Element], place: PciPlace, busid: str, own_class: str
) -> Element:
    """Return the XML element of a PCI device; it and the elements of the bridges above it are created if they do not
    exist."""
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
