"""A node as the text of a topology XML for NCCL_TOPO_FILE, with the attributes that NCCL's and RCCL's parsers need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Final

from simfrontier.records import dataclass
from simfrontier.topology.node_topology import NodeTopology, PciPlace, TopologyDevice, TopologyNic
from simfrontier.topology.pci import PciLink

BRIDGE, SWITCH, NIC_CLASS = "0x060400", "0x068000", "0x020000"
DEVICE_CLASS: Final = {"nvlink": "0x030200", "xgmi": "0x038000"}
# No fact of a machine's file: an AMD EPYC of Zen 3, as RCCL's models of such nodes have it.
CPU: Final = {"arch": "x86_64", "vendor": "AuthenticAMD", "familyid": "175", "modelid": "48"}
HIP_ARCH: Final = "38911"  # what RCCL's models have for all devices: flags of what they can do
SWITCH_BUSID: Final = "ffff:00:00.0"
MOST_CONNECTIONS: Final = "65536"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tag:
    name: str
    attributes: dict[str, str]
    inside: list[_Tag] = field(default_factory=list)

    def lines(self, indent: str = "") -> Iterator[str]:
        given = "".join(f' {name}="{_escaped(value)}"' for name, value in self.attributes.items())
        if not self.inside:
            yield f"{indent}<{self.name}{given}/>"
            return
        yield f"{indent}<{self.name}{given}>"
        for tag in self.inside:
            yield from tag.lines(indent + "  ")
        yield f"{indent}</{self.name}>"


def xml_text(topology: NodeTopology, num_compute_units: int, remarks: Sequence[str] = ()) -> str:
    """The file. `num_compute_units` of a device is what RCCL has for `sm`; `remarks` are comments at its beginning."""
    cpus = {number: _cpu(number) for number in topology.cpus}
    tags: dict[str, _Tag] = {}
    for at, device in enumerate(topology.devices):
        pci = _pci(cpus, tags, device.place, device.busid, DEVICE_CLASS[topology.medium])
        pci.inside.append(_gpu(topology, at, device, num_compute_units))
    for nic in topology.nics:
        above = cpus[nic.place.cpu]
        if nic.busid:
            above = _pci(cpus, tags, nic.place, nic.busid, NIC_CLASS)
        if not (above.inside and above.inside[-1].name == "nic"):
            above.inside.append(_Tag(name="nic", attributes={}))
        above.inside[-1].inside.append(_net(nic))
    system = _Tag(name="system", attributes={"version": str(topology.version)}, inside=list(cpus.values()))
    comments = [f"<!-- {remark.replace('--', '- ')} -->" for remark in remarks]
    return "\n".join([*comments, *system.lines()]) + "\n"


def _cpu(number: int) -> _Tag:
    return _Tag(name="cpu", attributes={"numaid": str(number), "affinity": f"{1 << max(0, number) % 32:08x}", **CPU})


def _pci(cpus: dict[int, _Tag], tags: dict[str, _Tag], place: PciPlace, busid: str, own_class: str) -> _Tag:
    """The element of a PCI device, with those of the bridges above it where they are not there yet."""
    above = cpus[place.cpu]
    classes = [BRIDGE] * len(place.bridges) + [own_class]
    for each, link, pci_class in zip((*place.bridges, busid), place.links, classes, strict=True):
        if each not in tags:
            tags[each] = _Tag(name="pci", attributes=_pci_attributes(each, pci_class, link))
            above.inside.append(tags[each])
        above = tags[each]
    return above


def _pci_attributes(busid: str, pci_class: str, link: PciLink) -> dict[str, str]:
    return {"busid": busid, "class": pci_class, "link_speed": link.speed, "link_width": str(link.width)}


def _gpu(topology: NodeTopology, at: int, device: TopologyDevice, num_compute_units: int) -> _Tag:
    arch = topology.arch
    given = {"dev": str(device.dev), "sm": str(arch.sm)}
    if topology.medium == "xgmi":
        given |= {"sm": str(num_compute_units), "gcn": arch.name, "arch": HIP_ARCH}
    links = [
        _link(topology, topology.devices[b if at == a else a].busid, count, DEVICE_CLASS[topology.medium])
        for (a, b), count in sorted(topology.links.items())
        if at in (a, b)
    ]
    if topology.to_switch[at]:
        links.append(_link(topology, SWITCH_BUSID, topology.to_switch[at], SWITCH))
    return _Tag(name="gpu", attributes={**given, "rank": str(at), "gdr": "1"}, inside=links)


def _link(topology: NodeTopology, target: str, count: int, target_class: str) -> _Tag:
    return _Tag(name=topology.medium, attributes={"target": target, "count": str(count), "tclass": target_class})


def _net(nic: TopologyNic) -> _Tag:
    speed = {"name": nic.name, "dev": str(nic.dev), "speed": str(nic.mbit_per_s), "port": "1"}
    more = {"guid": f"0x{nic.dev + 1:x}", "maxconn": MOST_CONNECTIONS, "gdr": "1"}
    return _Tag(name="net", attributes={**speed, **more})


def _escaped(value: str) -> str:
    for sign, reference in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        value = value.replace(sign, reference)
    return value
