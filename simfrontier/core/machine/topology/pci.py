"""PCI Express as an XML states it, `link_speed="16.0 GT/s PCIe" link_width="16"`, and its nominal bandwidth."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

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
        """Nominal, in each direction; None where speed or width are not known."""
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
    """Return the generation and width of that bandwidth, the widest up to 16 lanes; where there is none, the generation
    whose 16 lanes are nearest to it, as a ratio."""
    for width in (each for each in reversed(WIDTHS) if each <= WIDTH):
        for transfers, lane in LANES.items():
            if abs(lane * width / bytes_per_s - 1) <= ROUNDED:
                return PciLink(transfers=transfers, width=width)
    transfers = min(LANES, key=lambda each: abs(math.log(bytes_per_s / (LANES[each] * WIDTH))))
    return PciLink(transfers=transfers, width=WIDTH)
