"""`simfrontier topology`: print and convert topology XML files, Slurm's topology.conf, and machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from simfrontier.base.errors import InputError, nearest, one_line, shown
from simfrontier.base.units import counted, written
from simfrontier.base.wholefile import write_whole
from simfrontier.core.machine import catalog, catalog_name, load_machine, topology as topologies
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import print_json

Sort = Literal["xml", "slurm", "machine"]
MEDIA: Final[dict[int, topologies.Medium]] = {1: "nvlink", 2: "xgmi"}
MADE_UP: Final = (
    "Bus ids, CPUs and PCI bridges are made up: a machine file has none. NCCL and RCCL find devices by bus id."
)
MOST_NAMED: Final = 100  # characters of the name of a file, in sources and titles
_FIRST_BYTES: Final = 4096
PROGRAM = {"nvlink": "NCCL", "xgmi": "RCCL"}
MOST_PAIRS = 24  # in a line


def topology(
    source: Annotated[
        str,
        typer.Argument(help="topology XML of NCCL or RCCL, Slurm's topology.conf, or a machine (name or TOML file)"),
    ],
    out: Annotated[
        Path | None, typer.Option(help="file to write: a machine file (TOML) from an XML, an XML from a machine")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(help="for an XML: machine (name or TOML file) that supplies what an XML lacks"),
    ] = None,
    arch: Annotated[
        str | None, typer.Option(help="for a machine: architecture of its devices, e.g. gfx90a or sm80; none: unknown")
    ] = None,
    version: Annotated[
        int | None,
        typer.Option(
            min=1, max=2, help="for a machine: 1 for NCCL (nvlink), 2 for RCCL (xgmi); default: by its devices"
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print it as JSON")] = False,
) -> None:
    """Print a node's topology XML or Slurm's topology.conf; convert an XML to a machine file, or a machine to an XML
    for NCCL_TOPO_FILE."""
    sort = _sort(source)
    _refuse_unused(source, sort, {"--out": out, "--base": base, "--arch": arch, "--version": version})
    match sort:
        case "slurm":
            _slurm(source, json)
        case "machine":
            _machine(source, arch, version, out, json)
        case "xml":
            _xml(Path(source), out, base, json)


def _slurm(source: str, as_json: bool) -> None:
    """Print the switches of a Slurm topology.conf."""
    levels = topologies.slurm_levels(Path(source))
    if as_json:
        print_json(slurm_document(levels))
    else:
        typer.echo("\n".join(slurm_lines(levels, source)))


def _machine(source: str, arch: str | None, version: int | None, out: Path | None, as_json: bool) -> None:
    """Print the node of a machine, and write its topology XML."""
    machine, chosen = load_machine(source), _arch(source, arch, version)
    node = topologies.topology_of(machine, chosen)
    text = topologies.xml_text(node, machine.device.num_compute_units, (f"The node of {machine.title}.", MADE_UP))
    pairs = ", ".join(f"{a}-{b}" for a, b in topologies.through_cpus(machine, node))
    left_out = [f"ways through CPUs, which NCCL knows by itself: {pairs}"] if pairs else []
    _show(node, f"{machine.name} as {PROGRAM[node.medium]} has it", (), left_out, out, text, as_json)


def _xml(path: Path, out: Path | None, base: str | None, as_json: bool) -> None:
    """Print the node of a topology XML, and write it as a machine file."""
    node = topologies.read_node(path)
    if out is None:
        _show(node, str(path), (), (), None, "", as_json)
        return
    if base is None:
        raise InputError(_missing_base(node.arch), where="--base")
    machine = load_machine(base)
    where, name = (one_line(text)[:MOST_NAMED] or "node" for text in (path.name, out.stem))
    made = topologies.machine_document(node, base, name, where)
    remarks = [f"The node of {where} (simfrontier topology) on the machine {base}."]
    remarks += [f"Not in this file: {text}" for text in made.left_out]
    text = topologies.machine_text(made.document, remarks)
    _show(node, str(path), machine.node.nic_device, made.left_out, out, text, as_json)


def _show(
    node: topologies.NodeTopology,
    said: str,
    preferred: Sequence[int],
    left_out: Sequence[str],
    out: Path | None,
    text: str,
    as_json: bool,
) -> None:
    """Write the text converted from a node, if requested, and print the node; `preferred`: devices that have a NIC on
    the machine among those equally near; `left_out`: parts of the node that the text lacks."""
    if out is not None:
        write_whole(out, text)
    if as_json:
        print_json(node_document(node, preferred) | {"left_out": left_out})
        return
    for line in node_lines(node, said, preferred):
        typer.echo(line)
    for each in left_out:
        typer.echo(f"Not in {out or 'the XML'}: {each}")
    if out is not None:
        typer.echo(f"Written to {out}")


def _sort(source: str) -> Sort:
    """Return the kind of the source (XML, topology.conf or machine), from the file name or from the first character of
    the file."""
    path = Path(source)
    match path.suffix.lower():
        case ".xml":
            return "xml"
        case ".toml":
            return "machine"
        case ".conf":
            return "slurm"
        case ".yaml" | ".yml":
            text = "topology.yaml of Slurm is not read; allowed: topology.conf (topology/tree), XML, TOML"
            raise InputError(text, where=source)
    if source in catalog() or not path.is_file():
        return "machine"
    with path.open("rb") as file:
        return "xml" if file.read(_FIRST_BYTES).lstrip().startswith(b"<") else "slurm"


def _refuse_unused(source: str, sort: Sort, given: dict[str, object]) -> None:
    """Raise InputError for options that apply only to another kind of source."""
    taken = {"xml": ("--out", "--base"), "machine": ("--out", "--arch", "--version"), "slurm": ()}[sort]
    called = {"xml": "a topology XML", "machine": "a machine", "slurm": "Slurm's file of switches"}[sort]
    unused = {option: value for option, value in given.items() if option not in taken}
    options.refuse(unused, f"for {source}, {called}; allowed: {', '.join(taken) or 'none'}")
    if given["--base"] is not None and given["--out"] is None:
        raise InputError("of the machine file that --out names, which is missing", where="--base")


def _arch(source: str, given: str | None, version: int | None) -> topologies.DeviceArch:
    """Return the architecture of a machine's devices, from the option or from the machine. Raises InputError, also for
    an unsupported `version`."""
    if given == topologies.NONE:
        if version is None:
            raise InputError("missing, needed because --arch is none; allowed: 1 (NCCL) or 2 (RCCL)", where="--version")
        return topologies.unknown_arch(MEDIA[version])
    names = [*(arch.name for arch in topologies.ARCHES), topologies.NONE]
    chosen = topologies.arch_of_machine(catalog_name(source)) if given is None else topologies.arch_named(given)
    if chosen is None and given is not None:
        raise InputError(f"got {shown(given)}; {nearest(given, names)}", where="--arch")
    if chosen is None:
        text = f"missing: what the devices of {source} are is not known; allowed: {', '.join(names)}"
        raise InputError(text, where="--arch")
    if version is not None and MEDIA[version] != chosen.medium:
        right = next(number for number, medium in MEDIA.items() if medium == chosen.medium)
        text = f"got {version}, allowed: {right}, which has {chosen.medium} elements, as {chosen.name} devices need"
        raise InputError(text, where="--version")
    return chosen


def _missing_base(arch: topologies.DeviceArch) -> str:
    """Return the error message for a missing --base: it lists the catalog's machines with such devices, or all
    machines."""
    text = "missing: an XML has no speeds of devices, which come from a machine of the catalog"
    if not arch.machines and arch.name != topologies.NONE:
        text += f", of which none has such devices ({arch.name}): speeds of devices would be the base's"
    of = f" with such devices ({arch.name})" if arch.machines else ""
    return f"{text}; allowed{of}: {', '.join(arch.machines or catalog())}"


def node_lines(topology: topologies.NodeTopology, said: str, preferred: Sequence[int] = ()) -> Iterator[str]:
    """Yield text lines with the devices, the links with their counts, and the NICs of a node; `preferred`: devices to
    prefer where several are equally near to a NIC."""
    arch = topology.arch
    kind = f"({arch.name})" if arch.link_bytes_per_s else "of unknown kind"
    devices, cpus = counted(len(topology.devices), "device"), counted(len(topology.cpus), "CPU")
    yield f"{said}: version {topology.version} ({PROGRAM[topology.medium]}), {devices} {kind}, {cpus}"
    yield f"  {'device':<8}{'bus id':<16}{'CPU':<5}PCI"
    for number, device in enumerate(topology.devices):
        link, rate = device.place.link, device.place.link.bytes_per_s
        pci = f"{link.speed} x{link.width}" + (f", {written(rate, 'bytes/s')}" if rate is not None else "")
        yield f"  {number:<8}{device.busid:<16}{device.place.cpu:<5}{pci}"
    yield from _links(topology)
    yield from _nics(topology, topologies.placed_nics(topology, preferred))


def _links(topology: topologies.NodeTopology) -> Iterator[str]:
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


def _nics(topology: topologies.NodeTopology, placed: topologies.PlacedNics | None) -> Iterator[str]:
    if placed is None:
        yield "NICs: none"
        return
    yield f"NICs (a package is {counted(placed.devices_per_package, 'device')}):"
    where = {
        nic: f"on device {device} ({topologies.way(topology.devices[device].place, nic.place)}"
        f"{'; as near to ' if others else ''}{', '.join(map(str, others))})"
        for nic, device, others in zip(placed.used, placed.device, placed.as_near, strict=True)
    }
    for nic in topology.nics:
        speed = "not known" if nic.bytes_per_s is None else written(nic.bytes_per_s, "bytes/s")
        place = where.get(nic, "not used: slower, further, or a package's second")
        yield f"  {nic.dev:<4}{nic.name or nic.busid:<14}{speed:<12}{place}"
    for mbit in sorted({nic.mbit_per_s for nic in topology.nics if nic.mbit_per_s and nic.bytes_per_s is None}):
        yield f"speed of a NIC not believed: {mbit} Mbit/s, allowed: up to {topologies.MOST_MBIT:,}"


def node_document(topology: topologies.NodeTopology, preferred: Sequence[int] = ()) -> dict[str, Any]:
    """Return a node as a JSON document."""
    placed = topologies.placed_nics(topology, preferred)
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


def slurm_lines(levels: topologies.SlurmLevels, source: str) -> Iterator[str]:
    """Yield text lines with the levels of switches, and the scenario keys that describe them."""
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


def slurm_document(levels: topologies.SlurmLevels) -> dict[str, Any]:
    """Return the levels of switches as a JSON document."""
    return {
        "nodes": levels.num_nodes,
        "levels": [
            {"group_level": level.level, "switches": list(level.switches), "nodes_below": list(level.num_nodes)}
            for level in levels.levels
        ],
    }
