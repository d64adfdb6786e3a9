"""Topology of one node: devices, links between them by count, PCI paths, NICs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from simfrontier.core.machine.topology.device_arch import DeviceArch, Medium
from simfrontier.core.machine.topology.pci import UNKNOWN, PciLink

Pair = tuple[int, int]  # of devices, the lower first
MOST_MBIT: Final = 10_000_000  # of a NIC, to be believed; plugins have written kbit/s


@dataclass(frozen=True, slots=True, kw_only=True)
class PciPlace:
    """Place in the PCI tree: under which CPU (by `numaid`), below which PCI bridges (bus ids from the CPU down), and
    the links of these bridges and, last, of itself."""

    cpu: int
    bridges: tuple[str, ...] = ()
    links: tuple[PciLink, ...] = ()

    @property
    def link(self) -> PciLink:
        """Its own link up."""
        return self.links[-1] if self.links else UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyDevice:
    """A device: `dev` is the number that the driver gives it."""

    dev: int
    busid: str
    place: PciPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyNic:
    """A port of a NIC, `net` in the file: its number, name and nominal speed in Mbit/s as the file has it (0: it does
    not say); `busid` is empty where the file has the NIC at a CPU, without a PCI device."""

    dev: int
    name: str
    busid: str
    mbit_per_s: int
    place: PciPlace

    @property
    def bytes_per_s(self) -> float | None:
        """In each direction; None where the file does not say, or says what no NIC has."""
        return self.mbit_per_s * 1e6 / 8 if 0 < self.mbit_per_s <= MOST_MBIT else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTopology:
    """A node. Devices have the numbers 0, 1 ... in the order of their `dev`.

    links       between two devices: how many
    to_switch   [device] how many go to switches of the node (NVSwitch)
    to_cpu      [device] how many go to its CPU (POWER9)
    unmatched   links that the file has to devices that are not in it
    to_itself   links that the file has from a device to itself
    links_known whether the file says which links there are: not where it has no gpu elements
    """

    version: int
    arch: DeviceArch
    medium: Medium
    cpus: tuple[int, ...]
    devices: tuple[TopologyDevice, ...]
    links: Mapping[Pair, int] = field(hash=False)
    to_switch: tuple[int, ...]
    to_cpu: tuple[int, ...]
    unmatched: int = 0
    to_itself: int = 0
    links_known: bool = True
    nics: tuple[TopologyNic, ...]

    @property
    def has_switch(self) -> bool:
        """Whether devices have links to a switch of the node."""
        return any(self.to_switch)
