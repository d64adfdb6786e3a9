"""`simfrontier topology`: print and convert topology XML files, Slurm's topology.conf, and machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from simfrontier.base.errors import InputError, nearest, shown
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import print_json

if TYPE_CHECKING:
    from simfrontier.core.machine.topology import DeviceArch, Medium, NodeTopology

Sort = Literal["xml", "slurm", "machine"]
MEDIA: Final[dict[int, Medium]] = {1: "nvlink", 2: "xgmi"}
MADE_UP: Final = (
    "Bus ids, CPUs and PCI bridges are made up: a machine file has none. NCCL and RCCL find devices by bus id."
)
MOST_NAMED: Final = 100  # characters of the name of a file, in sources and titles
_FIRST_BYTES: Final = 4096


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
    """Print the switches of Slurm's file."""
    from simfrontier.core.machine.topology import slurm_levels
    from simfrontier.interfaces.cli.terminal.topology import slurm_document, slurm_lines

    levels = slurm_levels(Path(source))
    if as_json:
        print_json(slurm_document(levels))
    else:
        typer.echo("\n".join(slurm_lines(levels, source)))


def _machine(source: str, arch: str | None, version: int | None, out: Path | None, as_json: bool) -> None:
    """Print the node of a machine, and write its XML."""
    from simfrontier.core.machine import load_machine
    from simfrontier.core.machine.topology import through_cpus, topology_of, xml_text
    from simfrontier.interfaces.cli.terminal.topology import PROGRAM

    machine, chosen = load_machine(source), _arch(source, arch, version)
    node = topology_of(machine, chosen)
    text = xml_text(node, machine.device.num_compute_units, (f"The node of {machine.title}.", MADE_UP))
    pairs = ", ".join(f"{a}-{b}" for a, b in through_cpus(machine, node))
    left_out = [f"ways through CPUs, which NCCL knows by itself: {pairs}"] if pairs else []
    _show(node, f"{machine.name} as {PROGRAM[node.medium]} has it", (), left_out, out, text, as_json)


def _xml(path: Path, out: Path | None, base: str | None, as_json: bool) -> None:
    """Print the node of an XML, and write its machine file."""
    from simfrontier.base.errors import one_line
    from simfrontier.core.machine import load_machine
    from simfrontier.core.machine.topology import machine_document, machine_text, read_node

    node = read_node(path)
    if out is None:
        _show(node, str(path), (), (), None, "", as_json)
        return
    if base is None:
        raise InputError(_missing_base(node.arch), where="--base")
    machine = load_machine(base)
    where, name = (one_line(text)[:MOST_NAMED] or "node" for text in (path.name, out.stem))
    made = machine_document(node, base, name, where)
    remarks = [f"The node of {where} (simfrontier topology) on the machine {base}."]
    remarks += [f"Not in this file: {text}" for text in made.left_out]
    text = machine_text(made.document, remarks)
    _show(node, str(path), machine.node.nic_device, made.left_out, out, text, as_json)


def _show(
    node: NodeTopology,
    said: str,
    preferred: Sequence[int],
    left_out: Sequence[str],
    out: Path | None,
    text: str,
    as_json: bool,
) -> None:
    """Write the text converted from a node, if requested, and print the node; `preferred`: devices that have a NIC on
    the machine among those equally near; `left_out`: parts of the node that the text lacks."""
    from simfrontier.base.wholefile import write_whole
    from simfrontier.interfaces.cli.terminal.topology import node_document, node_lines

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
    """Return the kind of source by its name, or by its first character."""
    from simfrontier.core.machine import catalog

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
    """Raise InputError for options of another kind of source."""
    taken = {"xml": ("--out", "--base"), "machine": ("--out", "--arch", "--version"), "slurm": ()}[sort]
    called = {"xml": "a topology XML", "machine": "a machine", "slurm": "Slurm's file of switches"}[sort]
    unused = {option: value for option, value in given.items() if option not in taken}
    options.refuse(unused, f"for {source}, {called}; allowed: {', '.join(taken) or 'none'}")
    if given["--base"] is not None and given["--out"] is None:
        raise InputError("of the machine file that --out names, which is missing", where="--base")


def _arch(source: str, given: str | None, version: int | None) -> DeviceArch:
    """Return what a machine's devices are, by the option or by the machine. Raises InputError, also for another
    `version`."""
    from simfrontier.core.machine import catalog_name
    from simfrontier.core.machine.topology import ARCHES, NONE, arch_named, arch_of_machine, unknown_arch

    if given == NONE:
        if version is None:
            raise InputError("missing, needed because --arch is none; allowed: 1 (NCCL) or 2 (RCCL)", where="--version")
        return unknown_arch(MEDIA[version])
    names = [*(arch.name for arch in ARCHES), NONE]
    chosen = arch_of_machine(catalog_name(source)) if given is None else arch_named(given)
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


def _missing_base(arch: DeviceArch) -> str:
    """Return the error for a missing base: the machines of the catalog with such devices, or all of them."""
    from simfrontier.core.machine import catalog
    from simfrontier.core.machine.topology import NONE

    text = "missing: an XML has no speeds of devices, which come from a machine of the catalog"
    if not arch.machines and arch.name != NONE:
        text += f", of which none has such devices ({arch.name}): speeds of devices would be the base's"
    of = f" with such devices ({arch.name})" if arch.machines else ""
    return f"{text}; allowed{of}: {', '.join(arch.machines or catalog())}"
