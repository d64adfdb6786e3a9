"""Commands for measured times: `calibrate` and `validate`, with their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simfrontier.cli.options import Dashboard, Jobs, Scheduler, Slurm, names_of, num_bytes, place_of, to_write
from simfrontier.errors import InputError

GroupDevices = Annotated[int | None, typer.Option(min=2, help="devices of a group, where the file does not say it")]
GroupNodes = Annotated[int | None, typer.Option(min=1, help="nodes that a group is on, where the file does not say it")]
GroupPackages = Annotated[
    int | None, typer.Option(min=1, help="packages that a group is on, in logs (default: what it fills)")
]


def calibrate(
    data: Annotated[
        list[Path],
        typer.Argument(
            help="CSV tables, output of nccl-tests, rccl-tests (text, JSON, CSV) or OSU, logs of NCCL's Inspector or "
            "DeepSpeed's communication, dumps of PyTorch's flight recorder, calibrations (.toml), real traces; folders"
        ),
    ],
    out: Annotated[Path, to_write("--out", "calibration file to write (.toml)")],
    fit: Annotated[
        bool | None,
        typer.Option(
            "--fit/--tables",
            help="fit the library's free parameters, or keep the times as tables (default: fit where there is a CSV)",
        ),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(help="machine (name or TOML file), where the data are of several or do not say it; a,b fits both"),
    ] = None,
    library: Annotated[str | None, typer.Option(help="library, where the data are of several or do not say it")] = None,
    devices: GroupDevices = None,
    nodes: GroupNodes = None,
    packages: GroupPackages = None,
    min_bytes: Annotated[str | None, typer.Option(help="fit to messages of at least this size, e.g. 64KiB")] = None,
    page: Annotated[Path | None, to_write("--page", "page with the plots of a fit (default: OUT.html)")] = None,
    where: Annotated[str | None, typer.Option(help="where it was measured (default: hosts in logs, machines)")] = None,
    when: Annotated[str | None, typer.Option(help="when it was measured (default: the dates of the files)")] = None,
    title: Annotated[str | None, typer.Option(help="title of the calibration")] = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    slurm: Slurm = None,
    dashboard: Dashboard = False,
    json: Annotated[bool, typer.Option("--json", help="print what was written as JSON")] = False,
) -> None:
    """Make a calibration, which a scenario names as library.calibration, out of measured times of collectives: tables
    of times, or a library's free parameters fitted to them, with 90 % intervals and errors on points left out."""
    from simfrontier.accuracy import Labels
    from simfrontier.cli.calibrate import calibrate_fit, calibrate_tables
    from simfrontier.machine import load_machine
    from simfrontier.measured import Setup, files_in, is_table

    place = place_of(jobs, scheduler, slurm, dashboard)
    if out.suffix != ".toml":
        raise InputError(f"--out: got {str(out)!r}; allowed: a name that ends in .toml")
    given = {
        "--machine": machine,
        "--library": library,
        "--devices": devices,
        "--nodes": nodes,
        "--packages": packages,
        "--min-bytes": min_bytes,
    }
    data = list(dict.fromkeys(data))
    options = "" if fit is None else (" --fit" if fit else " --tables")
    options += "".join(f" {option} {value}" for option, value in given.items() if value is not None)
    how = f"simfrontier calibrate {' '.join(file.name for file in data)}{options} --out {out.name}"
    labels = Labels(where=where, when=when, title=title, how=how)
    machines = names_of("--machine", machine, "frontier,lumi-g")
    for name in machines:
        load_machine(name)
    alone = machines[0] if len(machines) == 1 else None
    setup = Setup(machine=alone, library=library, devices=devices, nodes=nodes, packages=packages)
    if any(map(is_table, files_in(data))) if fit is None else fit:
        least = 0 if min_bytes is None else num_bytes("--min-bytes", min_bytes)
        calibrate_fit(data, out, page, setup, labels, machines, least, json, place)
        return
    of_a_fit = {"--min-bytes": min_bytes, "--page": page, "--scheduler": scheduler, "--slurm": slurm}
    for option, value in of_a_fit.items():
        if value is not None:
            raise InputError(f"{option}: got {str(value)!r} for tables of times; allowed: only with a fit (--fit)")
    if len(machines) > 1:
        raise InputError(f"--machine: got {machine!r} for tables of times; allowed: one machine")
    calibrate_tables(data, out, setup, labels, json)


def validate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="your own measurements instead, as --data", metavar="FILE", show_default=False),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(help="your own measurements instead: times (files and folders as of calibrate) or training runs"),
    ] = None,
    cross: Annotated[
        bool | None,
        typer.Option(
            "--cross/--no-cross",
            help="predict fitted rows by fits without their number of devices, and training runs by fits without their "
            "machine (default), or fitted rows alone by the shipped parameters",
        ),
    ] = None,
    out: Annotated[Path | None, to_write("--out", "folder for the page index.html (default: no page)")] = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    slurm: Slurm = None,
    dashboard: Dashboard = False,
    json: Annotated[bool, typer.Option("--json", help="print every row and its prediction as JSON")] = False,
    machine: Annotated[
        str | None, typer.Option(help="machine of --data (a name, or a TOML file), where the file does not say it")
    ] = None,
    library: Annotated[str | None, typer.Option(help="library of --data, where the file does not say it")] = None,
    devices: GroupDevices = None,
    nodes: GroupNodes = None,
    packages: GroupPackages = None,
    harness: Annotated[
        str | None,
        typer.Option(help="programs whose own time is in --data, e.g. frontier_call,frontier_list; or none"),
    ] = None,
) -> None:
    """Compare measured tables and published training runs with the shipped models. Exit code 1 where a table leaves its
    stated bound."""
    from simfrontier.cli.validate import validate_tables
    from simfrontier.machine import load_machine
    from simfrontier.measured import Setup

    place = place_of(jobs, scheduler, slurm, dashboard)
    if machine is not None and machine.endswith(".toml"):
        load_machine(machine)
    setup = Setup(machine=machine, library=library, devices=devices, nodes=nodes, packages=packages)
    holds = validate_tables([*(files or ()), *(data or ())], setup, harness, cross, out, json, place)
    raise typer.Exit(0 if holds else 1)
