"""Conversion of a node's topology XML to a machine file: links, NICs and rings come from the XML, everything else from
a base machine.

The base supplies what the XML lacks (speeds of devices, shares of links, the network between nodes). Where the XML only
repeats a number of the base, in coarser units, the base's number and its source are kept.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simfrontier.base.errors import InputError
from simfrontier.base.io import comment, toml_document
from simfrontier.core.machine import Machine, catalog, catalog_name, document_of, load_machine
from simfrontier.core.machine.form import NIC, PCIE, PORT
from simfrontier.core.machine.topology.derived_rings import chains_of, joins_of, rings_of, undirected
from simfrontier.core.machine.topology.device_arch import ARCHES, DeviceArch, arch_of_machine, unknown_arch
from simfrontier.core.machine.topology.nearest_nics import PlacedNics, placed_nics
from simfrontier.core.machine.topology.node_topology import NodeTopology, links_per_class, mbit, nearest_pci

Document = dict[str, Any]
ABOVE = ("dragonfly", "fat_tree")
MADE_RINGS = "derived from the links (simfrontier topology): each ring takes the links of which most are left"


def machine_text(document: Mapping[str, Any], remarks: Sequence[str]) -> str:
    """Return the text of the machine file; `remarks` become the comment at its beginning."""
    return f"{comment(chr(10).join(remarks))}\n\n{toml_document(document, width=100)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDocument:
    """Document of a machine file, and descriptions of the parts of the XML that the document omits."""

    document: Document
    left_out: tuple[str, ...]


def machine_document(topology: NodeTopology, base: str, name: str, where: str) -> MachineDocument:
    """Return the machine file of a machine called `name`: the machine `base` (of the catalog, or a user's own file)
    with the node of the XML file `where`. Raises InputError if there is no such machine, or a machine file cannot
    express the node."""
    if not topology.links_known:
        text = "no gpu elements, so that links between devices are not known; allowed: a file of NCCL_TOPO_DUMP_FILE"
        raise InputError(text, where=where)
    machine, below = load_machine(base), document_of(base)
    made = _Made(topology, machine, arch_of_machine(catalog_name(base)), below, where)
    made.nodes()
    made.inside()
    made.outside()
    wanted = made.document | {"name": name, "title": f"{below['title']}, with the node of {where}"}
    return MachineDocument(document=_on(base, below, wanted), left_out=tuple(made.left_out))


def _on(base: str, below: Document, wanted: Document) -> Document:
    """Return the document as differences from its base if possible. It is complete, without a base, if a part of the
    base must be absent, or if the base is a user's own file, which may move."""
    head = {key: wanted[key] for key in ("name", "title")}
    differs = _difference(below, wanted) if base in catalog() else None
    return {**head, **wanted} if differs is None else {**head, "base": base, **differs}


def _difference(below: Mapping[str, Any], wanted: Mapping[str, Any]) -> Document | None:
    """Return the keys and values that `wanted` adds to, or changes in, the base document `below` (see `io.on_base`);
    None if the base has keys that must be absent."""
    if not below.keys() <= wanted.keys():
        return None
    out: Document = {}
    for key, part in wanted.items():
        if key in below and below[key] == part:
            continue
        tables = [each for each in (below.get(key), part) if isinstance(each, dict) and "source" not in each]
        inner = _difference(below[key], part) if len(tables) == 2 else part
        if inner is None:
            return None
        out[key] = inner
    return out


def _number(value: float, kind: str, source: str) -> Document:
    return {"value": value, "kind": kind, "source": source}


class _Made:
    """Builder of a machine file's document, table by table."""

    def __init__(
        self, topology: NodeTopology, base: Machine, base_arch: DeviceArch | None, below: Document, where: str
    ) -> None:
        self.topology, self.base, self.where = topology, base, where
        self.document = copy.deepcopy(below)
        self.left_out: list[str] = []
        self._classes: Document = self.document["link_classes"]
        self._used: set[str] = set()
        self._node: Document = {}
        preferred = base.node.nic_device if base.devices_per_node == len(topology.devices) else ()
        of_base = base_arch or unknown_arch(topology.medium)
        self._counts = links_per_class(base, of_base) if of_base == topology.arch else {}  # of the same devices alone
        self._nics = placed_nics(topology, preferred)
        if of_base != topology.arch:
            self.left_out.append(f"speeds of {topology.arch.name} devices (they are those of {base.name})")
        if self._nics is not None and base.num_nodes == 1:
            self.left_out.append(f"{len(topology.nics)} NICs: {base.name} is one node without a network")
            self._nics = None

    def nodes(self) -> None:
        """Set the numbers of devices per node and package, and of nodes."""
        num_devices, base = len(self.topology.devices), self.base
        if num_devices < 2:
            raise InputError("got one device; a machine file describes links of two or more", where=self.where)
        said = f"{self.where}: {num_devices} gpu elements"
        self.document["devices_per_node"] = _number(num_devices, "quoted", said)
        per_package, why = base.devices_per_package, f"as {base.name}"
        if self._nics is not None:
            per_package, why = self._nics.devices_per_package, f"{len(self._nics.used)} NICs: devices that share one"
        elif num_devices % per_package:
            per_package, why = 1, "no NIC says which devices are near to each other"
        if per_package != base.devices_per_package:
            self.document["devices_per_package"] = _number(per_package, "inferred", f"{self.where}: {why}")
        if self._nics is None and base.num_nodes > 1:
            self.document["num_nodes"] = _number(1, "inferred", f"{self.where}: no NIC to another node")

    def inside(self) -> None:
        """Set the parts inside the node: its links and rings, or its switch."""
        topology = self.topology
        if topology.has_switch:
            if topology.links or len(set(topology.to_switch)) > 1:
                text = "devices with other links beside those to a switch, or with unlike numbers of these"
                raise InputError(f"{text}; a machine file has a switch alone, alike for all", where=self.where)
            self._switch(topology.to_switch[0])
        elif topology.links:
            self._links()
        else:
            self._pci_switch()
        if topology.unmatched:
            self.left_out.append(f"{topology.unmatched} links to devices that are not in the file")
        if topology.to_itself:
            self.left_out.append(f"{topology.to_itself} links of devices to themselves")
        if any(topology.to_cpu):
            self.left_out.append(f"{sum(topology.to_cpu)} links between devices and CPUs")

    def _switch(self, count: int) -> None:
        if self._counts.get(PORT) != count:
            self._classes[PORT] = self._new_class(count)
        self._used.add(PORT)
        self._node["switch"] = {"kind": "quoted", "source": f"{self.where}: {count} links of each device to switches"}

    def _pci_switch(self) -> None:
        """Model devices that only PCI joins as devices on one switch; that the switch is non-blocking, and the share of
        bandwidth that copies achieve, are assumptions."""
        self._classes[PORT] = self._pci_class("", "no links between devices, and PCI of unknown speed")
        self._used.add(PORT)
        said = f"{self.where}: no links between devices; their PCI links, taken as if one switch joined them"
        self._node["switch"] = {"kind": "assumed", "source": said}

    def _pci_class(self, more: str, fault: str) -> Document:
        """Return a link class with the bandwidth of the narrowest PCI link of any device. Raises InputError with the
        text `fault` if a device's PCI bandwidth is unknown."""
        known = [rate for device in self.topology.devices if (rate := device.place.link.bytes_per_s) is not None]
        if len(known) < len(self.topology.devices):
            raise InputError(fault, where=self.where)
        source = f"{self.where}: the narrowest PCI link of a device{more}"
        return {"bytes_per_s": _number(min(known), "inferred", source), "share": self._share(min(known))}

    def _links(self) -> None:
        topology, num_devices = self.topology, len(self.topology.devices)
        named = {count: name for name, count in self._counts.items() if count is not None and name != PORT}
        pairs: dict[str, list[list[int]]] = {}
        for count in sorted(set(topology.links.values()), reverse=True):
            name = named.get(count) or self._new_name(count)
            if count not in named:
                self._classes[name] = self._new_class(count)
            pairs[name] = [list(pair) for pair, each in topology.links.items() if each == count]
        joins = joins_of(topology.links, num_devices)
        source = f"{self.where}: {topology.medium} elements"
        if joins:
            name = self._host_class()
            pairs[name] = [list(pair) for pair in joins]
            source += f"; {name}: through CPUs, where links close no ring"
        self._used |= pairs.keys()
        self._node["links"] = {"kind": "quoted", "source": source, "pairs": pairs}
        of_base = self.document["node"]
        if _as_sets(pairs) == _as_sets(of_base.get("links", {}).get("pairs", {})):
            self._node["rings"] = of_base["rings"]
        else:
            rings = rings_of({**topology.links, **dict.fromkeys(joins, 1)}, num_devices)
            self._node["rings"] = _orders(MADE_RINGS, rings)

    def _host_class(self) -> str:
        """Return the name of the link class for paths through CPUs: that of the base, if it has one, or else a new
        class with the bandwidth of a device's PCI link."""
        others = [name for name, count in self._counts.items() if count is None and name != PORT]
        if others:
            return others[0]
        text = "links close no ring over all devices, and PCI links, which could, are of unknown speed"
        fault = f"{text}; allowed: link_speed and link_width of devices"
        self._classes["host"] = self._pci_class("; CPUs are between", fault)
        return "host"

    def _new_name(self, count: int) -> str:
        """Return the name of a link class of `count` links, as in the catalog; with the architecture's name in front if
        the base already uses that name."""
        name = f"{self.topology.medium}{count}"
        return name if name not in self.base.link_classes else f"{self.topology.arch.name}-{name}"

    def _new_class(self, count: int) -> Document:
        """Return a link class of `count` links, with the share and the start-up time of the base's link class that is
        nearest in bandwidth."""
        arch = self.topology.arch
        one = arch.link_bytes_per_s
        if one is None and self._counts:
            one = min(self.base.link_classes[name].bytes_per_s for name in self._counts)
        if one is None:
            names = ", ".join(each.name for each in ARCHES if each.medium == self.topology.medium)
            text = f"what one {self.topology.medium} of these devices carries is not known; allowed: devices of {names}"
            raise InputError(f"{text}, or a base of devices as unknown", where=self.where)
        source = f"{self.where}: {count} links, each of {one / 1e9:g} GB/s ({arch.source})"
        made = {"bytes_per_s": _number(count * one, "inferred", source), "share": self._share(count * one)}
        like = self._like(count * one)
        start_up = self.base.link_classes[like].half_bytes / self.base.link_classes[like].bytes_per_s
        if start_up:
            made["half_bytes"] = _number(start_up * count * one, "assumed", f"a start-up as that of {self._of(like)}")
        return made

    def _share(self, bytes_per_s: float) -> Document:
        like = self._like(bytes_per_s)
        return _number(self.base.link_classes[like].share, "assumed", f"as {self._of(like)}")

    def _of(self, name: str) -> str:
        return f"link class {name} of {self.base.name}"

    def _like(self, bytes_per_s: float) -> str:
        """Return the name of the base's link class nearest in bandwidth, among those inside a node."""
        inside = {link.link_class for link in self.base.node.links[: self.base.node.num_inside]}
        classes = {name: each for name, each in self.base.link_classes.items() if name in inside}
        apart = {name: abs(math.log(each.bytes_per_s / bytes_per_s)) for name, each in classes.items()}
        return min(apart, key=lambda name: (apart[name], name))

    def outside(self) -> None:
        """Set the parts outside the node: its NICs and chains, and the network between nodes."""
        if self._nics is None:
            for table in ABOVE:
                self.document.pop(table, None)
        else:
            self._network(self._nics)
        keep = {*self._used, *({"global"} if "dragonfly" in self.document else ())}
        self.document["link_classes"] = {name: each for name, each in self._classes.items() if name in keep}
        self.document["node"] = self._node

    def _network(self, nics: PlacedNics) -> None:
        classes, of_base = self.base.link_classes, self.document["node"]
        self._used |= {PCIE, NIC}
        speed, bytes_per_s = nics.used[0].mbit_per_s, nics.used[0].bytes_per_s
        if bytes_per_s is None:
            why = "of which the file says nothing" if not speed else f"{speed} Mbit/s, which no NIC has"
            self.left_out.append(f"the speed of NICs, {why} (it is that of {self.base.name})")
        elif mbit(classes[NIC].bytes_per_s) != speed:
            source = f"{self.where}: net elements of speed {speed} (Mbit/s)"
            self._classes[NIC]["bytes_per_s"] = _number(bytes_per_s, "quoted", source)
        if nics.bytes_per_s is not None and nearest_pci(classes[PCIE].bytes_per_s).bytes_per_s != nics.bytes_per_s:
            source = f"{self.where}: link_speed and link_width of pci elements between a NIC and its device"
            self._classes[PCIE]["bytes_per_s"] = _number(nics.bytes_per_s, "quoted", source)
        device = list(nics.device)
        same = nics.device == self.base.node.nic_device
        said = f"{self.where}: the nearest by PCI paths"
        self._node["nics"] = {"kind": "inferred", "source": said, "device": device}
        alike = self._node.get("rings") == of_base.get("rings") and ("switch" in self._node) == ("switch" in of_base)
        if same and alike and self.base.devices_per_node == len(self.topology.devices):
            if "chains" in of_base:  # else those of any node with a switch
                self._node["chains"] = of_base["chains"]
        else:
            rings = self._node["rings"]["orders"] if "rings" in self._node else _around(len(self.topology.devices))
            self._node["chains"] = _orders(f"{MADE_RINGS}; cut before each NIC", chains_of(_paired(rings), device))
        if left := len(self.topology.nics) - len(nics.used):
            self.left_out.append(f"{left} of {len(self.topology.nics)} NICs, slower, further, or a package's second")


def _orders(source: str, orders: tuple[tuple[int, ...], ...]) -> Document:
    return {"kind": "inferred", "source": source, "orders": [list(order) for order in orders]}


def _around(num_devices: int) -> list[list[int]]:
    """Return a ring and its reverse over devices on a switch, where any order is a ring."""
    order = list(range(num_devices))
    return [order, order[::-1]]


def _paired(rings: list[list[int]]) -> list[tuple[int, ...]]:
    """Return the rings of a machine file (where they come in any order), each followed directly by its reverse."""
    out: dict[tuple[int, ...], tuple[int, ...]] = {}
    for ring in map(tuple, rings):
        out.setdefault(undirected(ring), ring)
    return [order for ring in out.values() for order in (ring, ring[::-1])]


def _as_sets(pairs: Mapping[str, list[list[int]]]) -> dict[str, set[frozenset[int]]]:
    return {name: {frozenset(pair) for pair in listed} for name, listed in pairs.items()}
