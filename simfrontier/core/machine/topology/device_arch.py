"""Device architectures: their names in a topology XML (`sm` of NCCL, `gcn` of RCCL), link bandwidths, and the machines
that have such devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Medium = Literal["nvlink", "xgmi"]  # the element of a link between two devices: NCCL's and RCCL's


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceArch:
    """A device architecture.

    `link_bytes_per_s` is the nominal bandwidth of one link in each direction (NCCL and RCCL assume lower values in
    src/graph/topo.h: 20 GB/s instead of 25 for an A100, 36 instead of 50 for an MI250X); None if the architecture is
    unknown: then the narrowest links of a machine count as one link. `words`: further names in an XML. `machines`:
    machines of the catalog with such devices.
    """

    name: str
    medium: Medium
    sm: int  # NCCL: the compute capability times 10
    link_bytes_per_s: float | None
    source: str
    words: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()


def _nvidia(sm: int, link_bytes_per_s: float, source: str, *machines: str) -> DeviceArch:
    return DeviceArch(
        name=f"sm{sm}",
        medium="nvlink",
        sm=sm,
        link_bytes_per_s=link_bytes_per_s,
        source=f"NVIDIA {source}",
        machines=machines,
    )


def _amd(name: str, word: str, link_bytes_per_s: float, source: str, *machines: str) -> DeviceArch:
    return DeviceArch(
        name=name,
        medium="xgmi",
        sm=60,
        link_bytes_per_s=link_bytes_per_s,
        source=f"AMD {source}",
        words=(word,),
        machines=machines,
    )


A100 = ("a100-40gb-node", "a100-node", "a800-node", "jean-zay-a100", "perlmutter", "perlmutter-80gb", "selene")
H100 = ("alps", "eos", "grand-teton", "h100-node", "h20-node", "h200-node", "h800-node", "jupiter")
B200 = ("b200-750w-node", "b200-node", "b300-node", "gb200-nvl72", "gb300-nvl72")
ARCHES: Final = (
    _nvidia(60, 20e9, "P100: 4 NVLinks, 160 GB/s both ways together"),
    _nvidia(70, 25e9, "V100 data sheet: 6 NVLinks, 300 GB/s both ways together", "dgx-2", "jean-zay-v100", "lassen"),
    _nvidia(80, 25e9, "A100 data sheet (1758950-r4): 12 NVLinks, 600 GB/s both ways together", *A100),
    _nvidia(86, 14.0625e9, "GA102 white paper: NVLinks of 14.0625 GB/s in each direction"),
    _nvidia(90, 25e9, "H100 data sheet: 18 NVLinks, 900 GB/s both ways together", *H100),
    _nvidia(100, 50e9, "B200: 18 NVLinks, 1.8 TB/s both ways together", *B200),
    _amd("gfx908", "908", 46e9, "MI100: xGMI of 23 GT/s, 2 bytes wide (rocm.docs.amd.com, MI100 microarchitecture)"),
    _amd(
        "gfx90a",
        "910",
        50e9,
        "MI250X: xGMI of 25 GT/s, 2 bytes wide (rocm.docs.amd.com, MI250 microarchitecture)",
        *("frontier", "lumi-g", "mi250-node"),
    ),
    _amd(
        "gfx942",
        "942",
        64e9,
        "MI300X data sheet: xGMI links of 128 GB/s both ways together",
        *("el-capitan", "mi300x-node", "mi325x-node"),
    ),
    _amd(
        "gfx950",
        "950",
        76.8e9,
        "CDNA 4 white paper (MI355X): Infinity Fabric links of 16 lanes at 38.4 Gb/s",
        *("mi350x-node", "mi355x-node"),
    ),
)
NONE: Final = "none"  # of devices that nobody knows, as those of toy machines


def unknown_arch(medium: Medium) -> DeviceArch:
    """Return the architecture of unknown devices."""
    return DeviceArch(name=NONE, medium=medium, sm=0, link_bytes_per_s=None, source="devices that are not known")


def arch_named(name: str, medium: Medium | None = None) -> DeviceArch | None:
    """Return the architecture of that name, which may also be one of its names in an XML; only one with links of that
    `medium`, unless that is None."""
    for arch in ARCHES:
        if name in (arch.name, *arch.words) and medium in (None, arch.medium):
            return arch
    return None


def arch_of_sm(capability: int) -> DeviceArch:
    """Return the architecture of NVIDIA devices of a compute capability. Devices of one generation are alike except for
    8.6 (src/graph/topo.h of NCCL: `ncclTopoNVLinkBw`). Devices without NVLink, and devices newer than the list, are of
    unknown architecture."""
    if capability == 86:
        generation = 86
    else:
        generation = next((first for first in (100, 90, 80, 70, 60) if first <= capability < first + 10), 0)
    return arch_named(f"sm{generation}") or unknown_arch("nvlink")


def arch_of_gcn(word: str) -> DeviceArch:
    """Return the architecture of AMD devices, given the name of their instruction set, or its number in older files
    (910 is gfx90a: RCCL's src/misc/archinfo.cc)."""
    return arch_named(word.partition(":")[0], "xgmi") or unknown_arch("xgmi")


def arch_of_machine(machine: str) -> DeviceArch | None:
    """Return the architecture of the devices of a machine of the catalog; None if unknown."""
    return next((arch for arch in ARCHES if machine in arch.machines), None)
