"""`simfrontier topology` as typer sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simfrontier.cli.options import to_write


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
    from simfrontier.cli.topology import show_topology

    show_topology(source, out, base, arch, version, json)
