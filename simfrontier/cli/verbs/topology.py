"""`simfrontier topology`: which sort of file it is, what it holds, and what is made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from simfrontier.cli.console import print_json
from simfrontier.cli.options import to_write
from simfrontier.cli.terminal.topology import PROGRAM, as_json, lines_of, slurm_json, slurm_lines
from simfrontier.errors import InputError, nearest, shown
from simfrontier.inputfile import open_input
from simfrontier.machine import catalog, catalog_name, is_machine, load_machine
from simfrontier.plaintext import one_line
from simfrontier.records import dataclass
from simfrontier.topology import (
    ARCHES,
    NONE,
    DeviceArch,
    Medium,
    NodeTopology,
    arch_named,
    arch_of_machine,
    machine_document,
    machine_text,
    placed_nics,
    read_node,
    slurm_levels,
    through_cpus,
    topology_of,
    unknown_arch,
    xml_text,
)
from simfrontier.wholefile import write_whole

Sort = Literal["xml", "slurm", "machine"]
MEDIA: Final[dict[int, Medium]] = {1: "nvlink", 2: "xgmi"}
MADE_UP: Final = (
    "Bus ids, CPUs and PCI bridges are made up: a machine file has none. NCCL and RCCL find devices by bus id.",
)
MOST_NAMED: Final = 100  # characters of the name of a file, in sources and titles
_FIRST_BYTES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A node, what it is called, the file that is made of it, what of it that file lacks, and the devices of the base
    that have a NIC."""

    topology: NodeTopology
    said: str
    text: str = ""
    left_out: tuple[str, ...] = ()
    preferred: tuple[int, ...] = ()


def topology(
    source: Annotated[
        str,
        typer.Argument(
            help="a topology XML of NCCL or RCCL, Slurm's topology.conf, or a machine (a name, or a TOML file)"
        ),
    ],
    out: Annotated[
        Path | None, to_write("--out", "of an XML: the machine file (TOML) to write; of a machine: the XML")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(help="of an XML: the machine (a name, or a TOML file) that all comes from that an XML lacks"),
    ] = None,
    arch: Annotated[
        str | None, typer.Option(help="of a machine: what its devices are, e.g. gfx90a or sm80; none: not known")
    ] = None,
    version: Annotated[
        int | None, typer.Option(help="of a machine: 1 for NCCL (nvlink), 2 for RCCL (xgmi); default: as its devices")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print it as JSON")] = False,
) -> None:
    """Say what a node's topology XML or Slurm's file of switches holds; make a machine file of a node's XML, and an XML
    for NCCL_TOPO_FILE of a machine."""
    sort = _sort(source)
    _refuse_unused(source, sort, {"--out": out, "--base": base, "--arch": arch, "--version": version})
    if sort == "slurm":
        levels = slurm_levels(Path(source))
        if json:
            print_json(slurm_json(levels))
        else:
            typer.echo("\n".join(slurm_lines(levels, source)))
        return
    told = _of_machine(source, arch, version) if sort == "machine" else _of_xml(Path(source), out, base)
    if out is not None:
        write_whole(out, told.text)
    if json:
        print_json(as_json(told.topology, told.preferred) | {"left_out": list(told.left_out)})
        return
    for line in lines_of(told.topology, told.said, told.preferred):
        typer.echo(line)
    for text in told.left_out:
        typer.echo(f"Not in {out or 'the XML'}: {text}")
    if out is not None:
        typer.echo(f"Written to {out}")


def _of_xml(path: Path, out: Path | None, base: str | None) -> _Told:
    """The node of an XML, and its machine file where one is to be written."""
    topology = read_node(path)
    if out is None:
        return _Told(topology=topology, said=str(path))
    chosen, where = _base(base, topology), _name(path.name)
    made = machine_document(topology, chosen, _name(out.stem), where)
    remarks = [f"The node of {where} (simfrontier topology) on the machine {chosen}."]
    remarks += [f"Not in this file: {text}" for text in made.left_out]
    return _Told(
        topology=topology,
        said=str(path),
        text=machine_text(made.document, remarks),
        left_out=made.left_out,
        preferred=load_machine(chosen).node.nic_device,
    )


def _name(text: str) -> str:
    """The name of a file as a text that a machine file may hold."""
    return one_line(text)[:MOST_NAMED] or "node"


def _sort(source: str) -> Sort:
    """By its name, or else by its first sign."""
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
    try:
        with open_input(path) as file:
            return "xml" if file.read(_FIRST_BYTES).lstrip().startswith(b"<") else "slurm"
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=source) from None


def _refuse_unused(source: str, sort: Sort, given: dict[str, object]) -> None:
    taken = {"xml": ("--out", "--base"), "machine": ("--out", "--arch", "--version"), "slurm": ()}[sort]
    called = {"xml": "a topology XML", "machine": "a machine", "slurm": "Slurm's file of switches"}[sort]
    for option, value in given.items():
        if value is not None and option not in taken:
            raise InputError(f"not for {source}, {called}; allowed: {', '.join(taken) or 'none'}", where=option)
    if given["--base"] is not None and given["--out"] is None:
        raise InputError("of the machine file that --out names, which is missing", where="--base")


def _of_machine(source: str, arch: str | None, version: int | None) -> _Told:
    """The node of a machine, and its XML."""
    machine = load_machine(source)
    chosen = _arch(source, arch, version)
    if version is not None and version not in MEDIA:
        raise InputError(f"got {version}, allowed: 1 (NCCL) or 2 (RCCL)", where="--version")
    if version is not None and MEDIA[version] != chosen.medium:
        right = next(number for number, medium in MEDIA.items() if medium == chosen.medium)
        text = f"got {version}, allowed: {right}, which has {chosen.medium} elements, as {chosen.name} devices need"
        raise InputError(text, where="--version")
    topology = topology_of(machine, chosen)
    pairs = ", ".join(f"{a}-{b}" for a, b in through_cpus(machine, topology))
    return _Told(
        topology=topology,
        said=f"{machine.name} as {PROGRAM[topology.medium]} has it",
        text=xml_text(topology, machine.device.num_compute_units, (f"The node of {machine.title}.", *MADE_UP)),
        left_out=(f"ways through CPUs, which NCCL knows by itself: {pairs}",) if pairs else (),
    )


def _arch(source: str, given: str | None, version: int | None) -> DeviceArch:
    if given == NONE:
        if version not in MEDIA:
            raise InputError("missing, needed because --arch is none; allowed: 1 (NCCL) or 2 (RCCL)", where="--version")
        return unknown_arch(MEDIA[version])
    names = [arch.name for arch in ARCHES]
    if given is not None:
        found = arch_named(given)
        if found is None:
            raise InputError(f"got {shown(given)}; {nearest(given, [*names, NONE])}", where="--arch")
        return found
    known = arch_of_machine(catalog_name(source))
    if known is None:
        text = f"missing: what the devices of {source} are is not known; allowed: {', '.join(names)}, or {NONE}"
        raise InputError(text, where="--arch")
    return known


def _base(given: str | None, topology: NodeTopology) -> str:
    """The base that is asked for. Raises InputError with those that have such devices where there is none."""
    if given is not None:
        if not is_machine(given):
            raise InputError(
                f"got {shown(given)}, no machine of the catalog; {nearest(given, catalog())}", where="--base"
            )
        return given
    alike = _alike(topology)
    text = "missing: an XML has no speeds of devices, which come from a machine of the catalog"
    if len(alike) == 1:
        raise InputError(f'{text}; did you mean "{alike[0]}"?', where="--base")
    if not alike and topology.arch.name != NONE:
        text += f", of which none has such devices ({topology.arch.name}): speeds of devices would be the base's"
    of = f" with such devices ({topology.arch.name})" if alike else ""
    raise InputError(f"{text}; allowed{of}: {', '.join(alike or catalog())}", where="--base")


def _alike(topology: NodeTopology) -> list[str]:
    """Machines of the catalog with such devices; of these, where there are some, those with such a node."""
    with_devices = list(topology.arch.machines)
    return [name for name in with_devices if _has_such_a_node(name, topology)] or with_devices


def _has_such_a_node(name: str, topology: NodeTopology) -> bool:
    known = topology_of(load_machine(name), topology.arch)
    placed = placed_nics(topology)
    same_links = (known.links, known.to_switch) == (topology.links, topology.to_switch)
    return same_links and len(known.nics) == (len(placed.used) if placed is not None else 0)
