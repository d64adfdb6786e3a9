"""Topology of one node: devices, links between them by count, PCI paths, NICs."""

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
    """A link up from a PCI device or bridge; `transfers` in GT/s is None where the file does not know it."""

    transfers: float | None = None
    width: int = 0

    @property
    def bytes_per_s(self) -> float | None:
        """Nominal bandwidth in each direction; None if speed or width is unknown."""
        lane = None if self.transfers is None else LANES.get(self.transfers)
        return lane * self.width if lane is not None and self.width in WIDTHS else None

    @property
    def speed(self) -> str:
        """Speed as Linux writes it in /sys (since 5.7)."""
        return "Unknown" if self.transfers is None else f"{self.transfers:.1f} GT/s PCIe"


UNKNOWN: Final = PciLink(width=WIDTH)


def pci_link(speed: str, width: int) -> PciLink:
    """Parse the two attributes; NCCL takes a width of 0 as 16 lanes (`ncclTopoAddPci`)."""
    found = _SPEED.fullmatch(speed.strip())
    return PciLink(transfers=float(found[1]) if found else None, width=width or WIDTH)


def nearest_pci(bytes_per_s: float) -> PciLink:
    """Return the generation and width of that bandwidth, the widest up to 16 lanes; if there is none, the generation
    whose 16 lanes are nearest to it, as a ratio."""
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
    """Place in the PCI tree: under which CPU (by `numaid`), below which PCI bridges (bus ids from the CPU down), and
    the links of these bridges and, last, of itself."""

    cpu: int
    bridges: tuple[str, ...] = ()
    links: tuple[PciLink, ...] = ()

    @property
    def link(self) -> PciLink:
        """The link up from the device itself."""
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
        """Bandwidth in each direction; None if the file has none, or one that no NIC has."""
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
        """True if devices have links to a switch of the node."""
        return any(self.to_switch)


def mbit(bytes_per_s: float) -> int:
    """Return a bandwidth as the `speed` of a net element."""
    return round(bytes_per_s * 8 / 1e6)


CLOSE = 1e-6  # relative: a nominal bandwidth is a whole number of links


def links_per_class(machine: Machine, arch: DeviceArch) -> dict[str, int | None]:
    """Return, for each link class that joins two devices, or a device and the node's switch, its bandwidth in links of
    `arch`; None if that is no whole number, so that it is something else (a path through CPUs). Raises InputError for
    unknown devices whose links are no whole numbers of the narrowest."""
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
