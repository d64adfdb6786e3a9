"""Reader of a topology XML, which describes a node.

Elements, attributes and their meaning follow NCCL's src/graph/xml.cc, xml.h and topo.cc (version 1, `nvlink`), and
RCCL's fork of them (version 2, at first 1, `xgmi`). Elements that these libraries ignore are ignored here. Files for
NCCL_TOPO_FILE that cloud providers ship contain only PCI devices, to which NCCL adds what it learns from the driver; in
these files, devices and NICs are recognised by their PCI class.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from defusedxml import DefusedXmlException, ElementTree

from simfrontier.base.errors import InputError, nearest, shown
from simfrontier.base.io import text_of
from simfrontier.base.limits import DEVICES_OF_NODE, NICS_OF_NODE
from simfrontier.core.machine.topology.device_arch import DeviceArch, Medium, arch_of_gcn, arch_of_sm
from simfrontier.core.machine.topology.node_topology import (
    NodeTopology,
    Pair,
    PciPlace,
    TopologyDevice,
    TopologyNic,
    pci_link,
)

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

VERSIONS: Final = {"1": "NCCL", "2": "RCCL"}
MEDIA: Final[tuple[Medium, ...]] = ("nvlink", "xgmi")
SLOWEST_MBIT: Final = 10_000  # NCCL's and RCCL's reading of a NIC without a speed (`ncclTopoAddNet`)
_BUSID: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
SWITCH_CLASS, CPU_CLASS = "0x068000", "0x068001"
DEVICE_CLASSES: Final = ("0x03", "0x120000")  # beginnings; the second is RCCL's, of devices without a display
NIC_CLASSES: Final = ("0x02",)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """An XML element of a device or NIC, or of a PCI device that contains neither, and its position in the PCI tree."""

    element: Element
    pci: Element | None
    place: PciPlace


def read_node(path: Path) -> NodeTopology:
    """Read a topology XML file. Raises InputError that names the faulty element."""
    # NCCL and RCCL end a comment at the first `-->`; their own files have `--` inside, which XML does not allow.
    text = re.sub(r"<!--.*?-->", "", text_of(path, "topology XML"), flags=re.DOTALL)
    try:
        return _node(ElementTree.fromstring(text, forbid_dtd=True))
    except ElementTree.ParseError as error:
        raise InputError(f"not XML: {error}", where=str(path)) from None
    except DefusedXmlException:
        text = "a document type is not read (it could define entities); allowed: elements alone"
        raise InputError(text, where=str(path)) from None
    except InputError as error:
        raise error.within(str(path)) from None


def _node(root: Element) -> NodeTopology:
    if root.tag != "system":
        raise _fault(root, f"got <{root.tag}>, allowed: <system>, as NCCL_TOPO_DUMP_FILE writes it")
    version = _text(root, "version")
    if version not in VERSIONS:
        raise _fault(root, f"version: got {shown(version)}, allowed: 1 (NCCL) or 2 (RCCL)")
    cpus = [each for each in root if each.tag == "cpu"]
    if len(hosts := {cpu.get("host_hash", "0") for cpu in cpus}) > 1:
        raise InputError(f"CPUs of {len(hosts)} hosts (host_hash); allowed: one node")
    everything = [found for cpu in cpus for found in _below(cpu, None, PciPlace(cpu=_integer(cpu, "numaid", -1)))]
    gpus = [found for found in everything if found.element.tag == "gpu"]
    nets = [found for found in everything if found.element.tag == "net"] or _of_class(everything, NIC_CLASSES)
    has_gpus = bool(gpus)
    gpus = gpus or _of_class(everything, DEVICE_CLASSES)
    if not gpus:
        raise InputError(
            "no gpu elements, and no pci elements of a GPU's class (0x03....); "
            "a file that NCCL_TOPO_DUMP_FILE wrote has a gpu element for each device"
        )
    if fault := DEVICES_OF_NODE.fault(len(gpus)) or NICS_OF_NODE.fault(len(nets)):
        raise InputError(fault)
    if has_gpus:
        gpus.sort(key=lambda found: _integer(found.element, "dev", 0))
    devices = tuple(_device(found, number) for number, found in enumerate(gpus))
    busids = [device.busid for device in devices]
    if twice := [busid for busid, count in Counter(busids).items() if count > 1]:
        raise InputError(f"got the bus id {twice[0]} of two devices, allowed: one of its own")
    medium = _medium(gpus, version)
    links = _Links(busids)
    for number, found in enumerate(gpus):
        for child in found.element:
            if child.tag in MEDIA:
                links.add(number, child)
    nics = [_nic(found, number) for number, found in enumerate(nets)]
    return NodeTopology(
        version=int(version),
        arch=_arch(gpus, medium),
        medium=medium,
        cpus=tuple(dict.fromkeys(_integer(cpu, "numaid", -1) for cpu in cpus)),
        devices=devices,
        links=links.both_ways(),
        to_switch=tuple(links.to_switch),
        to_cpu=tuple(links.to_cpu),
        unmatched=links.unmatched,
        to_itself=links.to_itself,
        links_known=has_gpus,
        nics=tuple(sorted(nics, key=lambda nic: (nic.dev, nic.name))),
    )


def _below(parent: Element, pci: Element | None, place: PciPlace) -> Iterator[_Found]:
    """Yield all devices, NICs, and PCI devices that directly contain neither, below a CPU or PCI element, in file
    order. Only nested pci elements are followed: the depth of a file is limited."""
    for child in parent:
        if child.tag == "pci":
            speed = child.get("link_speed", "")
            link = pci_link(speed, _integer(child, "link_width", 0, 0))
            above = (*place.bridges, *([_busid(parent, "busid")] if pci is not None else []))
            here = PciPlace(cpu=place.cpu, bridges=above, links=(*place.links, link))
            inside = list(_below(child, child, here))
            if all(found.pci is not child for found in inside):
                yield _Found(element=child, pci=child, place=here)
            yield from inside
        elif child.tag == "gpu" and pci is not None:
            yield _Found(element=child, pci=pci, place=place)
        elif child.tag == "nic":
            for net in child:  # a fused NIC's parts are marked net="0", those of no use have no dev
                if net.tag == "net" and "dev" in net.attrib and net.attrib.get("net", "1") != "0":
                    yield _Found(element=net, pci=pci, place=place)


def _of_class(everything: Sequence[_Found], classes: tuple[str, ...]) -> list[_Found]:
    """Return the PCI devices whose PCI class begins with one of `classes`, sorted by bus id, as drivers number devices
    of one kind."""
    pcis = [found for found in everything if found.element.tag == "pci"]
    chosen = [found for found in pcis if found.element.get("class", "").lower().startswith(classes)]
    return sorted(chosen, key=lambda found: _busid(found.element, "busid"))


def _device(found: _Found, number: int) -> TopologyDevice:
    assert found.pci is not None, "a gpu element is read only below a pci element"
    dev = _integer(found.element, "dev", 0) if found.element.tag == "gpu" else number
    return TopologyDevice(dev=dev, busid=_busid(found.pci, "busid"), place=found.place)


def _nic(found: _Found, number: int) -> TopologyNic:
    """Return the NIC of a net element, or of a PCI device whose class is that of NICs; the file has no speed for the
    latter."""
    is_net = found.element.tag == "net"
    speed = _integer(found.element, "speed", -(1 << 63), 0)
    return TopologyNic(
        dev=_integer(found.element, "dev", 0) if is_net else number,
        name=found.element.get("name", ""),
        busid="" if found.pci is None else _busid(found.pci, "busid"),
        mbit_per_s=0 if not is_net else speed if speed > 0 else SLOWEST_MBIT,
        place=found.place,
    )


def _medium(gpus: Sequence[_Found], version: str) -> Medium:
    """Return the kind of links in the file (nvlink or xgmi). Version 1 may be either: RCCL used it before it had its
    own version."""
    named = {child.tag for found in gpus for child in found.element}
    of_file: Medium = "xgmi" if version == "2" or ("xgmi" in named and "nvlink" not in named) else "nvlink"
    for found in gpus:
        for child in found.element:
            if child.tag in MEDIA and child.tag != of_file:
                text = f"got <{child.tag}>, allowed: <{of_file}>, as version is {version}"
                raise _fault(child, text)
    return of_file


def _arch(gpus: Sequence[_Found], medium: Medium) -> DeviceArch:
    """Return the architecture of the devices, which must be the same for all devices."""
    arches = [
        arch_of_gcn(found.element.get("gcn", ""))
        if medium == "xgmi"
        else arch_of_sm(_integer(found.element, "sm", 0, 0))
        for found in gpus
    ]
    for found, arch in zip(gpus, arches, strict=True):
        if arch != arches[0]:
            text = f"got a device of {arch.name} beside one of {arches[0].name}; allowed: all alike"
            raise _fault(found.element, text)
    return arches[0]


class _Links:
    """Numbers of links between devices, as both ends of each link report them."""

    def __init__(self, busids: Sequence[str]) -> None:
        self._numbers = {busid: number for number, busid in enumerate(busids)}
        self._told: dict[Pair, tuple[int, Element]] = {}
        self.to_switch = [0] * len(busids)
        self.to_cpu = [0] * len(busids)
        self.unmatched = self.to_itself = 0

    def add(self, device: int, link: Element) -> None:
        count, target_class = _integer(link, "count", 1), _text(link, "tclass").lower()
        if target_class.startswith(SWITCH_CLASS):
            self.to_switch[device] += count
        elif target_class.startswith(CPU_CLASS):
            self.to_cpu[device] += count
        elif target_class.startswith(DEVICE_CLASSES):
            self._between(device, link, count)
        else:
            allowed = f"0x03.... (a device), {SWITCH_CLASS} (a switch) or {CPU_CLASS} (a CPU)"
            raise _fault(link, f"tclass: got {shown(target_class)}, allowed: {allowed}")

    def _between(self, device: int, link: Element, count: int) -> None:
        target = _busid(link, "target")
        other = self._numbers.get(target)
        if other is None:
            self.unmatched += count
        elif other == device:
            self.to_itself += count
        else:
            told, _ = self._told.get((device, other), (0, link))
            self._told[device, other] = told + count, link

    def both_ways(self) -> Mapping[Pair, int]:
        """Return the number of links of each pair of devices. Raises InputError unless both devices report the same
        number."""
        names = {number: busid for busid, number in self._numbers.items()}
        for (a, b), (count, link) in self._told.items():
            back = self._told.get((b, a), (0, link))[0]
            if back != count:
                text = f"{count} links from {names[a]} to {names[b]}, and {back} back; allowed: as many both ways"
                raise _fault(link, text)
        return {(a, b): count for (a, b), (count, _) in sorted(self._told.items(), key=lambda each: each[0]) if a < b}


# ── attributes ──


def _fault(element: Element, what: str) -> InputError:
    """Return an InputError about an XML element, which is identified by its first attributes."""
    first = "".join(f' {name}="{value}"' for name, value in list(element.attrib.items())[:2])
    return InputError(f"<{element.tag}{first}>: {what}")


def _text(element: Element, name: str) -> str:
    if name not in element.attrib:
        close = nearest(name, element.attrib) if element.attrib else "it has no attributes"
        raise _fault(element, f"no {name}; {close.replace('allowed:', 'it has')}")
    return element.attrib[name]


def _integer(element: Element, name: str, least: int, default: int | None = None) -> int:
    """Return an attribute as an integer, also one written as 0x..; `default` if the attribute is missing (None: it is
    required)."""
    if default is not None and name not in element.attrib:
        return default
    text = _text(element, name)
    try:
        value = int(text, 16 if "x" in text.lower() else 10)
    except ValueError:
        value = least - 1
    if value < least:
        raise _fault(element, f"{name}: got {shown(text)}, allowed: a whole number, {least} or more")
    return value


def _busid(element: Element, name: str) -> str:
    text = _text(element, name).strip().lower()
    if not _BUSID.fullmatch(text):
        raise _fault(element, f"{name}: got {shown(text)}, allowed: a PCI bus id, e.g. 0000:c1:00.0")
    return text
