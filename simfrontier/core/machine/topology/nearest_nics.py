"""Assignment of NICs to the packages and devices of a node, by their distance in the PCI tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simfrontier.core.machine.topology.node_topology import NodeTopology, PciPlace, TopologyNic

Nearness = tuple[int, int]  # the smaller, the nearer


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedNics:
    """Assignment of one NIC to each package. `used[k]` is the NIC of package k, which has `devices_per_package`
    devices; the NIC is attached to `device[k]`, and `as_near[k]` lists the other devices of the package that are
    equally near to it."""

    devices_per_package: int
    used: tuple[TopologyNic, ...]
    device: tuple[int, ...]
    as_near: tuple[tuple[int, ...], ...]
    bytes_per_s: float | None  # the narrowest PCI link between a NIC and its device; None where the file is silent


def nearness(a: PciPlace, b: PciPlace) -> Nearness:
    """Return the distance class of two PCI devices: 0 below a common bridge (the more bridges they share, the nearer),
    1 under one CPU, 2 otherwise; NCCL calls these PIX or PXB, PHB, and SYS. NCCL itself does not compare the lengths of
    PXB paths."""
    shared = _shared(a, b)
    return (0 if shared else 1 if a.cpu == b.cpu else 2), -shared


def way(a: PciPlace, b: PciPlace) -> str:
    """Return NCCL's term for the path between two PCI devices (`PATH_...` in src/graph/topo.h)."""
    shared = _shared(a, b)
    if shared:
        return "PIX" if len(a.bridges) + len(b.bridges) - 2 * shared == 0 else "PXB"
    return "PHB" if a.cpu == b.cpu else "SYS"


def _shared(a: PciPlace, b: PciPlace) -> int:
    """Return the number of PCI bridges that two PCI devices share, counted from the CPU down."""
    if a.cpu != b.cpu:
        return 0
    pairs = list(zip(a.bridges, b.bridges, strict=False))
    return next((at for at, (one, other) in enumerate(pairs) if one != other), len(pairs))


def placed_nics(topology: NodeTopology, preferred: Sequence[int] = ()) -> PlacedNics | None:
    """Assign one NIC to each package, with packages as small as possible; None if the node has no NIC.

    Only the fastest NICs are used. A package may use a NIC that is among the nearest NICs of one of its devices. The
    NIC is attached to the nearest device of its package; if several are equally near, to the one in `preferred`, or
    else the first.
    """
    fastest = max((nic.mbit_per_s for nic in topology.nics), default=0)
    nics = [nic for nic in topology.nics if nic.mbit_per_s == fastest]
    if not nics:
        return None
    num_devices = len(topology.devices)
    near = [[nearness(device.place, nic.place) for nic in nics] for device in topology.devices]
    nearest = [{at for at, each in enumerate(row) if each == min(row)} for row in near]
    for size in (each for each in range(1, num_devices + 1) if num_devices % each == 0):
        packages = [range(first, first + size) for first in range(0, num_devices, size)]
        wanted = [sorted(set().union(*(nearest[device] for device in package))) for package in packages]
        taken = _matched(wanted) if len(packages) <= len(nics) else None
        if taken is not None:
            break
    else:
        raise AssertionError("all devices together have a nearest NIC")
    alike = [_nearest([row[nic] for row in near], package) for package, nic in zip(packages, taken, strict=True)]
    device = tuple(next((each for each in some if each in preferred), some[0]) for some in alike)
    used = tuple(nics[nic] for nic in taken)
    return PlacedNics(
        devices_per_package=size,
        used=used,
        device=device,
        as_near=tuple(
            tuple(each for each in some if each != chosen) for some, chosen in zip(alike, device, strict=True)
        ),
        bytes_per_s=_narrowest(topology, used, device),
    )


def _nearest(near: Sequence[Nearness], package: range) -> list[int]:
    """Return the devices of a package that are nearest to a NIC, given the distance from each device to it."""
    least = min(near[device] for device in package)
    return [device for device in package if near[device] == least]


def _matched(wanted: Sequence[Sequence[int]]) -> list[int] | None:
    """Match each package with one of its acceptable NICs, a different one for each package; return the NIC of each
    package, None if no such matching exists."""
    owner: dict[int, int] = {}

    def found(package: int, seen: set[int]) -> bool:
        free = next((nic for nic in wanted[package] if nic not in owner), None)
        if free is not None:
            owner[free] = package
            return True
        for nic in wanted[package]:
            if nic not in seen:
                seen.add(nic)
                if found(owner[nic], seen):
                    owner[nic] = package
                    return True
        return False

    if not all(found(package, set()) for package in range(len(wanted))):
        return None
    of_package = {package: nic for nic, package in owner.items()}
    return [of_package[package] for package in range(len(wanted))]


def _narrowest(topology: NodeTopology, used: Sequence[TopologyNic], device: Sequence[int]) -> float | None:
    rates = []
    for nic, number in zip(used, device, strict=True):
        one, other = topology.devices[number].place, nic.place
        shared = _shared(one, other)
        rates += [link.bytes_per_s for link in (*one.links[shared:], *other.links[shared:])]
    known = [rate for rate in rates if rate is not None]
    return min(known) if known and len(known) == len(rates) else None
