"""The form of a machine's file beyond the values of `hardware`: its top level, and the tables of a node's graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le, Len

from simfrontier.base.io import SOURCED, Kind, Text
from simfrontier.base.limits import DEVICES_OF_NODE
from simfrontier.core.machine.copies import Copies
from simfrontier.core.machine.hardware import Device, Dragonfly, FatTree, Host, LinkClass, Nodes

Devices = Annotated[int, Ge(1), Le(DEVICES_OF_NODE.most), SOURCED]
Pair = Annotated[tuple[int, ...], Len(2, 2)]
Order = Annotated[tuple[int, ...], Len(2)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bus:
    """One shared resource that every copy between two devices of the node passes; its capacity is link class `bus`."""

    kind: Kind
    source: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A switch inside the node that holds nobody up (NVSwitch): every device has a link of class `port` to it, and one
    from it. Any order of the devices is a ring that fills all ports."""

    kind: Kind
    source: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Which pairs of devices are joined both ways, by link class."""

    kind: Kind
    source: Text
    pairs: Mapping[str, tuple[Pair, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nics:
    """NIC k hangs on device[k]."""

    kind: Kind
    source: Text
    device: Annotated[tuple[int, ...], Len(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """Rings or chains over the devices of a node."""

    kind: Kind
    source: Text
    orders: Annotated[tuple[Order, ...], Len(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTable:
    """A node has links and rings, or a switch, or a bus."""

    links: Links | None = None
    rings: Orders | None = None
    switch: Switch | None = None
    bus: Bus | None = None
    nics: Nics | None = None
    chains: Orders | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFile:
    """A machine's file; without `device_word` (what people call a device), devices that share a package are GCDs."""

    name: Text
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
