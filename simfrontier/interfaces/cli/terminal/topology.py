"""Output of `topology`: a node, and Slurm's switches, as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from simfrontier.base.units import counted, written
from simfrontier.core.machine.topology import MOST_MBIT, NodeTopology, PlacedNics, SlurmLevels, placed_nics, way

PROGRAM = {"nvlink": "NCCL", "xgmi": "RCCL"}
MOST_PAIRS = 24  # in a line


def node_lines(topology: NodeTopology, said: str, preferred: Sequence[int] = ()) -> Iterator[str]:
    """Yield devices, links by their number, and NICs; `preferred`: devices that have a NIC among those equally near."""
    arch = topology.arch
    kind = f"({arch.name})" if arch.link_bytes_per_s else "of unknown kind"
    devices, cpus = counted(len(topology.devices), "device"), counted(len(topology.cpus), "CPU")
    yield f"{said}: version {topology.version} ({PROGRAM[topology.medium]}), {devices} {kind}, {cpus}"
    yield f"  {'device':<8}{'bus id':<16}{'CPU':<5}PCI"
    for number, device in enumerate(topology.devices):
        yield f"  {number:<8}{device.busid:<16}{device.place.cpu:<5}{_pci(device.place.link)}"
    yield from _links(topology)
    yield from _nics(topology, placed_nics(topology, preferred))


def _pci(link: Any) -> str:
    rate = link.bytes_per_s
    return f"{link.speed} x{link.width}" + (f", {written(rate, 'bytes/s')}" if rate is not None else "")


def _links(topology: NodeTopology) -> Iterator[str]:
    one = topology.arch.link_bytes_per_s
    each = f", {written(one, 'bytes/s')} each ({topology.arch.source})" if one else ""
    if topology.to_itself:
        yield f"links of devices to themselves: {topology.to_itself}, which {PROGRAM[topology.medium]} does not use"
    if not topology.links_known:
        yield (
            "links: not in the file, which has no gpu elements but PCI devices alone: NCCL asks the driver for them, "
            "and writes them to the file that NCCL_TOPO_DUMP_FILE names"
        )
        return
    if not topology.links and not topology.has_switch:
        yield "links: none; PCI joins the devices"
        return
    yield f"links ({topology.medium}{each}):"
    for count in sorted(set(topology.links.values()), reverse=True):
        pairs = [f"{a}-{b}" for (a, b), links in topology.links.items() if links == count]
        more = f", and {len(pairs) - MOST_PAIRS} more" if len(pairs) > MOST_PAIRS else ""
        yield f"  {_count(count, one):<22}{', '.join(pairs[:MOST_PAIRS])}{more}"
    for ends, what in ((topology.to_switch, "switches of the node"), (topology.to_cpu, "CPUs")):
        for count in sorted({each for each in ends if each}, reverse=True):
            devices = ", ".join(str(number) for number, each in enumerate(ends) if each == count)
            yield f"  {_count(count, one):<22}to {what}: each of {devices}"


def _count(count: int, one: float | None) -> str:
    return counted(count, "link") + (f", {written(count * one, 'bytes/s')}" if one else "")


def _nics(topology: NodeTopology, placed: PlacedNics | None) -> Iterator[str]:
    if placed is None:
        yield "NICs: none"
        return
    yield f"NICs (a package is {counted(placed.devices_per_package, 'device')}):"
    where = {
        nic: f"on device {device} ({way(topology.devices[device].place, nic.place)}"
        f"{'; as near to ' if others else ''}{', '.join(map(str, others))})"
        for nic, device, others in zip(placed.used, placed.device, placed.as_near, strict=True)
    }
    for nic in topology.nics:
        speed = "not known" if nic.bytes_per_s is None else written(nic.bytes_per_s, "bytes/s")
        place = where.get(nic, "not used: slower, further, or a package's second")
        yield f"  {nic.dev:<4}{nic.name or nic.busid:<14}{speed:<12}{place}"
    for mbit in sorted({nic.mbit_per_s for nic in topology.nics if nic.mbit_per_s and nic.bytes_per_s is None}):
        yield f"speed of a NIC not believed: {mbit} Mbit/s, allowed: up to {MOST_MBIT:,}"


def node_document(topology: NodeTopology, preferred: Sequence[int] = ()) -> dict[str, Any]:
    """Return a node as a JSON document."""
    placed = placed_nics(topology, preferred)
    device_of = {} if placed is None else dict(zip(placed.used, placed.device, strict=True))
    one = topology.arch.link_bytes_per_s
    return {
        "version": topology.version,
        "arch": topology.arch.name,
        "link_bytes_per_s": one,
        "devices": [
            {
                "device": number,
                "dev": device.dev,
                "busid": device.busid,
                "cpu": device.place.cpu,
                "pci_bridges": list(device.place.bridges),
                "pci_bytes_per_s": device.place.link.bytes_per_s,
                "links_to_switches": topology.to_switch[number],
                "links_to_cpu": topology.to_cpu[number],
            }
            for number, device in enumerate(topology.devices)
        ],
        "links": [
            {"devices": [a, b], "medium": topology.medium, "count": count, "bytes_per_s": one and count * one}
            for (a, b), count in topology.links.items()
        ],
        "links_known": topology.links_known,
        "links_elsewhere": topology.unmatched,
        "links_to_itself": topology.to_itself,
        "devices_per_package": None if placed is None else placed.devices_per_package,
        "nics": [
            {"dev": nic.dev, "name": nic.name, "bytes_per_s": nic.bytes_per_s, "device": device_of.get(nic)}
            for nic in topology.nics
        ],
    }


# ── Slurm ──


def slurm_lines(levels: SlurmLevels, source: str) -> Iterator[str]:
    """Yield the levels of switches, and the keys of a scenario that use them."""
    yield f"{source}: {levels.num_nodes:,} nodes, {counted(len(levels.levels), 'level')}"
    for level in levels.levels:
        least, most = min(level.num_nodes), max(level.num_nodes)
        nodes = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        switches = f"{len(level.switches):,} switches" if len(level.switches) > 1 else "1 switch"
        each = "each" if len(level.switches) > 1 else "it"
        yield f"  group_level = {level.level}: {switches}, {nodes} node{'s' if most > 1 else ''} below {each}"
    yield ""
    yield "# In a scenario, on a machine with groups (dragonfly) or leaves (fat tree):"
    yield "[nodes]"
    yield f'topology = "{Path(source).name}"  # looked for beside the scenario'
    yield f"group_level = 0  # or up to {len(levels.levels) - 1}: the switches that are the machine's groups"
    yield f'# list = "{levels.first_group}"  # the nodes of the job, e.g. those below the first switch'


def slurm_document(levels: SlurmLevels) -> dict[str, Any]:
    """Return the levels of switches as a JSON document."""
    return {
        "nodes": levels.num_nodes,
        "levels": [
            {"group_level": level.level, "switches": list(level.switches), "nodes_below": list(level.num_nodes)}
            for level in levels.levels
        ],
    }
