"""Schema of a machine's TOML file: its top level, the tables of the node's link graph, and the checks that its parts
are consistent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from annotated_types import Ge, Le, Len

from simfrontier.base.errors import InputError, Key, dotted, nearest
from simfrontier.base.io import SOURCED, Kind, Text
from simfrontier.base.limits import DEVICES_OF_NODE
from simfrontier.core.machine.device import Device, Host, Matmul
from simfrontier.core.machine.hardware import BUS, UPLINK, Copies, Dragonfly, FatTree, LinkClass, Nodes

PCIE: Final = "pcie"  # link class between a device and its NIC
NIC: Final = "nic"  # link class between a NIC and the network
PORT: Final = "port"  # link class between a device and the switch of its node
GLOBAL: Final = "global"  # link class of a dragonfly's links between groups
Devices = Annotated[int, Ge(1), Le(DEVICES_OF_NODE.most), SOURCED]
Pair = Annotated[tuple[int, ...], Len(2, 2)]
Order = Annotated[tuple[int, ...], Len(2)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Base of the tables of a node's link graph that have one source for the whole table."""

    kind: Kind
    source: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Bus(Told):
    """One shared resource that all copies between devices of the node pass; its capacity is that of link class
    `bus`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(Told):
    """A non-blocking switch inside the node (NVSwitch). Every device has one link to the switch and one from it, of
    class `port`. Any order of the devices is a ring that fills all ports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links(Told):
    """Pairs of devices joined by links in both directions, by link class."""

    pairs: Mapping[str, tuple[Pair, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nics(Told):
    """NICs of a node: NIC k is attached to device `device[k]` (default: to the first device of package k)."""

    device: Annotated[tuple[int, ...], Len(1)] | None = None

    def devices(self, num_devices: int, per_package: int) -> tuple[int, ...]:
        """Return the device of each NIC of a node of `num_devices` devices."""
        return self.device or tuple(range(0, num_devices, per_package))


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders(Told):
    """Rings or chains over the devices of a node, each an order of the devices."""

    orders: Annotated[tuple[Order, ...], Len(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTable:
    """Tables of a node; it has links and rings, or a switch, or a bus. Default of the chains with a switch: for each
    NIC, one that starts at its device and goes around, and its way back."""

    links: Links | None = None
    rings: Orders | None = None
    switch: Switch | None = None
    bus: Bus | None = None
    nics: Nics | None = None
    chains: Orders | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFile:
    """Schema of a machine's file. `aliases`: other names that people use for such machines; an error about an unknown
    machine suggests this one for them. `device_word` is the term for a device; by default, devices that share a package
    are called GCDs."""

    name: Text
    aliases: tuple[Text, ...] = ()
    title: Text
    device_word: Text | None = None
    library: Text
    num_nodes: Nodes
    devices_per_node: Devices
    devices_per_package: Devices
    link_classes: Mapping[str, LinkClass]
    node: NodeTable
    dragonfly: Dragonfly | None = None
    fat_tree: FatTree | None = None
    device: Device
    host: Host
    copies: Copies | None = None


# ── parts that do not go together ──


def refuse_unfit(file: MachineFile) -> None:
    """Raise InputError, at the key concerned, if parts of the file contradict each other."""
    for key, text in (*_wrong_sizes(file), *_wrong_parts(file), *_wrong_link_classes(file)):
        raise InputError(text, key=key)


def _wrong_sizes(file: MachineFile) -> Iterator[tuple[Key, str]]:
    per_node, per_package = file.devices_per_node, file.devices_per_package
    if per_node % per_package:
        yield ("devices_per_package",), f"got {per_package}, allowed: a divisor of devices_per_node = {per_node}"
    forms = file.device.matmul_forms
    fastest = max(1.0, forms.tn, forms.nn, forms.nt)
    of_types: dict[Key, Matmul | Device | None] = {
        ("device",): file.device,
        ("device", "fp8"): file.device.fp8,
        ("device", "mxfp8"): file.device.mxfp8,
        ("device", "nvfp4"): file.device.nvfp4,
        ("device", "fp32"): file.device.fp32,
        ("device", "fp64"): file.device.fp64,
    }
    for key, rates in of_types.items():
        if rates is not None and rates.matmul_flops_per_s * fastest > rates.peak_flops_per_s:
            times = f", by factors up to {fastest:g} (device.matmul_forms)" if fastest > 1.0 else ""
            most = f"allowed: at most {dotted(key)}.peak_flops_per_s = {rates.peak_flops_per_s:g}"
            yield (*key, "matmul_flops_per_s"), f"got {rates.matmul_flops_per_s:g}{times}, {most}"
    fly, tree = file.dragonfly, file.fat_tree
    rooms: list[tuple[int, str]] = []
    if fly is not None:
        rooms.append((fly.num_groups * fly.nodes_per_group, "dragonfly.num_groups * dragonfly.nodes_per_group"))
    if tree is not None:
        rooms.append((tree.num_leaves * tree.nodes_per_leaf, "fat_tree.num_leaves * fat_tree.nodes_per_leaf"))
    for room, keys in rooms:
        if room < file.num_nodes:
            yield ("num_nodes",), f"got {file.num_nodes}, allowed: at most {room} ({keys})"


def _wrong_parts(file: MachineFile) -> Iterator[tuple[Key, str]]:
    """Yield the key and the error text of each part that is missing or not allowed because of the other parts of the
    file."""
    node = file.node
    joins = {"links": node.links, "switch": node.switch, "bus": node.bus}
    if len(joined := [name for name, part in joins.items() if part is not None]) != 1:
        got = " and ".join(joined) or "none"
        yield ("node",), f"got {got}; allowed: one of links, switch and bus, which joins all devices"
    if (node.links is None) != (node.rings is None):
        yield ("node", "rings"), "allowed: with node.links, which it follows, and needed there"
    if file.dragonfly is not None and file.fat_tree is not None:
        yield ("fat_tree",), "not allowed beside dragonfly, which joins the nodes"
    outside: dict[Key, object] = {("node", "nics"): node.nics, ("node", "chains"): node.chains}
    above: dict[Key, object] = {("dragonfly",): file.dragonfly, ("fat_tree",): file.fat_tree}
    for key, part in {**outside, **above}.items():
        is_derived = key == ("node", "chains") and node.switch is not None
        if file.num_nodes > 1 and part is None and key in outside and not is_derived:
            yield key, f"missing, needed because num_nodes is {file.num_nodes}"
        if file.num_nodes == 1 and part is not None:
            yield key, "not allowed in a machine of one node (num_nodes = 1)"


def _wrong_link_classes(file: MachineFile) -> Iterator[tuple[Key, str]]:
    pairs = file.node.links.pairs if file.node.links is not None else {}
    for name in {PCIE, NIC, PORT, GLOBAL, BUS, UPLINK} & pairs.keys():
        yield ("node", "links", "pairs", name), f'got "{name}", which never joins two devices'
    users: dict[str, object] = {"bus": file.node.bus, "switch": file.node.switch, "nics": file.node.nics}
    used = dict.fromkeys(pairs, "node.links")
    used |= {name: f"node.{user}" for name, user in _OF_NODE if users[user] is not None}
    used |= {GLOBAL: "dragonfly"} if file.dragonfly is not None else {}
    for name, user in used.items():
        if name not in file.link_classes:
            text = f'{user} needs link class "{name}", which is missing; {nearest(name, file.link_classes)}'
            yield ("link_classes",), text
    for name in file.link_classes:
        if name not in used:
            yield ("link_classes", name), f"nothing in this machine uses it; {nearest(name, used)}"


# ── a file on a base ──

INSIDE: Final = (("switch",), ("bus",), ("links", "rings"))  # of a node: what joins its devices, one of these
BETWEEN: Final = (("dragonfly",), ("fat_tree",))  # of a machine: what joins its nodes
OUTSIDE: Final = ("nics", "chains")  # of a node: its part of the network
Document = Mapping[str, Any]
_OF_NODE: Final = ((BUS, "bus"), (PORT, "switch"), (PCIE, "nics"), (NIC, "nics"))  # link classes and what needs them


def without_inherited(merged: dict[str, Any], own: Document) -> dict[str, Any]:
    """Return the merged document without inherited parts that no longer apply: tables of the base that `own`, the
    file's own document, replaces by another kind (e.g. links by a switch), and link classes of the base that are then
    unused."""
    node, own_node = _table(merged, "node"), _table(own, "node")
    dropped = _replaced(INSIDE, own_node)
    above = _replaced(BETWEEN, own)
    if _value(own.get("num_nodes")) == 1:
        dropped |= {*OUTSIDE} - own_node.keys()
        above |= {name for names in BETWEEN for name in names} - own.keys()
    kept = {key: part for key, part in merged.items() if key not in above}
    if node:
        kept["node"] = {key: part for key, part in node.items() if key not in dropped}
    if _table(merged, "link_classes"):
        wanted = {*_used(kept), *_table(own, "link_classes")}
        kept["link_classes"] = {name: part for name, part in merged["link_classes"].items() if name in wanted}
    return kept


def _replaced(ways: tuple[tuple[str, ...], ...], own: Document) -> set[str]:
    """Return the tables to drop from the base: if the file has a table of one alternative in `ways`, the tables of all
    other alternatives."""
    if not any(name in own for names in ways for name in names):
        return set()
    return {name for names in ways if not any(each in own for each in names) for name in names}


def _used(document: Document) -> set[str]:
    """Return the link classes that a document uses. The document is not validated yet and may contain anything."""
    node = _table(document, "node")
    used = set(_table(_table(node, "links"), "pairs"))
    used |= {name for name, user in _OF_NODE if user in node}
    return used | ({GLOBAL} if "dragonfly" in document else set())


def _table(document: Document, key: str) -> Document:
    part = document.get(key)
    return part if isinstance(part, dict) else {}


def _value(number: object) -> object:
    return number.get("value") if isinstance(number, dict) else number
