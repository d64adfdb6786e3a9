"""Topology of one node: devices, numbers of links between them, PCI paths, NICs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from simfrontier.base.errors import InputError
from simfrontier.core.machine import SWITCH, Machine
from simfrontier.core.machine.topology.device_arch import DeviceArch, Medium

_SPEED: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) GT/s(?: PCIe)?")
# GT/s → bytes/s of a lane in each direction: 8b/10b codes, then 128b/130b, then flits of 242 in 256 bytes.
LANES: Final = {
    2.5: 2.5e9 / 8 * 8 / 10,
    5.0: 5e9 / 8 * 8 / 10,
    8.0: 8e9 / 8 * 128 / 130,
    16.0: 16e9 / 8 * 128 / 130,
    32.0: 32e9 / 8 * 128 / 130,
    64.0: 64e9 / 8 * 242 / 256,
}
WIDTHS: Final = (1, 2, 4, 8, 12, 16, 32)
ROUNDED: Final = 1e-3  # relative; data sheets round: 31.5 GB/s for 31.508
WIDTH: Final = 16  # lanes of a device or NIC that is written here


@dataclass(frozen=True, slots=True, kw_only=True)
class PciLink:
    """A PCI link from a PCI device or bridge towards the CPU; `transfers` in GT/s is None if the file has none."""

    transfers: float | None = None
    width: int = 0

    @property
    def bytes_per_s(self) -> float | None:
        """Nominal bandwidth in each direction; None if speed or width is unknown."""
        lane = None if self.transfers is None else LANES.get(self.transfers)
        return lane * self.width if lane is not None and self.width in WIDTHS else None

    @property
    def speed(self) -> str:
        """Link speed as text, in the format of Linux in /sys (since 5.7)."""
        return "Unknown" if self.transfers is None else f"{self.transfers:.1f} GT/s PCIe"


UNKNOWN: Final = PciLink(width=WIDTH)


def pci_link(speed: str, width: int) -> PciLink:
    """Parse the attributes link_speed and link_width; a width of 0 means 16 lanes, as in NCCL (`ncclTopoAddPci`)."""
    found = _SPEED.fullmatch(speed.strip())
    return PciLink(transfers=float(found[1]) if found else None, width=width or WIDTH)


def nearest_pci(bytes_per_s: float) -> PciLink:
    """Return the PCI link (generation and width) of that bandwidth, the widest one up to 16 lanes. If no link has this
    bandwidth, return the 16-lane link of the generation nearest in bandwidth, by ratio."""
    for width in (each for each in reversed(WIDTHS) if each <= WIDTH):
        for transfers, lane in LANES.items():
            if abs(lane * width / bytes_per_s - 1) <= ROUNDED:
                return PciLink(transfers=transfers, width=width)
    transfers = min(LANES, key=lambda each: abs(math.log(bytes_per_s / (LANES[each] * WIDTH))))
    return PciLink(transfers=transfers, width=WIDTH)


Pair = tuple[int, int]  # of devices, the lower first
MOST_MBIT: Final = 10_000_000  # of a NIC, to be believed; plugins have written kbit/s


@dataclass(frozen=True, slots=True, kw_only=True)
class PciPlace:
    """Position of a PCI device in the PCI tree: its CPU (by `numaid`), the PCI bridges above it (bus ids from the CPU
    down), and the upward links of these bridges, followed by the link of the device itself."""

    cpu: int
    bridges: tuple[str, ...] = ()
    links: tuple[PciLink, ...] = ()

    @property
    def link(self) -> PciLink:
        """The PCI link from the device itself towards the CPU."""
        return self.links[-1] if self.links else UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyDevice:
    """A device of the node; `dev` is its number by the driver."""

    dev: int
    busid: str
    place: PciPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyNic:
    """A port of a NIC (element `net`): its number, name and nominal speed in Mbit/s as in the file (0: unknown);
    `busid` is empty if the file places the NIC directly below a CPU, without a PCI device."""

    dev: int
    name: str
    busid: str
    mbit_per_s: int
    place: PciPlace

    @property
    def bytes_per_s(self) -> float | None:
        """Nominal bandwidth in each direction; None if the file has none, or an implausibly high one."""
        return self.mbit_per_s * 1e6 / 8 if 0 < self.mbit_per_s <= MOST_MBIT else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTopology:
    """Topology of a node. Devices are numbered 0, 1 ... in the order of their `dev`.

    links       number of links between two devices, by pair
    to_switch   [device] number of links from each device to switches of the node (NVSwitch)
    to_cpu      [device] number of links from each device to its CPU (POWER9)
    unmatched   number of links in the file that lead to devices that are not in the file
    to_itself   number of links in the file that lead from a device to itself
    links_known False if the file has no gpu elements, so that the links between devices are unknown
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
        """True if any device has links to a switch of the node."""
        return any(self.to_switch)


def mbit(bytes_per_s: float) -> int:
    """Return a bandwidth in Mbit/s, as in the attribute `speed` of a net element."""
    return round(bytes_per_s * 8 / 1e6)


CLOSE = 1e-6  # relative: a nominal bandwidth is a whole number of links


def links_per_class(machine: Machine, arch: DeviceArch) -> dict[str, int | None]:
    """Return the number of links of architecture `arch` that each link class amounts to, by bandwidth, for the link
    classes that join two devices, or a device and the node's switch. The number is None if the bandwidth is no whole
    multiple of one link's: such a class is something else (a path through CPUs). Raises InputError if the architecture
    is unknown and a bandwidth is no whole multiple of the narrowest one."""
    rates = {
        link.link_class: link.bytes_per_s
        for link in machine.node.links[: machine.node.num_inside]
        if isinstance(link.src, int) and (isinstance(link.dst, int) or link.dst == SWITCH)
    }
    if not rates:
        return {}
    one = arch.link_bytes_per_s or min(rates.values())
    counts = {name: _whole(rate / one) for name, rate in rates.items()}
    for name, count in counts.items():
        if count is None and arch.link_bytes_per_s is None:
            text = f"link class {name} has {rates[name]:g} bytes/s, no whole number of the narrowest ({one:g})"
            raise InputError(f"{text}; an XML only counts links; allowed: --arch, which says what one carries")
    return counts


def _whole(links: float) -> int | None:
    count = round(links)
    return count if count >= 1 and abs(links - count) <= CLOSE * count else None
