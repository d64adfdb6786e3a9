"""`simfrontier calibrate`: a calibration from measured times, as tables or as fitted parameters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simfrontier.base.errors import InputError
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import print_json, progress

if TYPE_CHECKING:
    from simfrontier.answers.accuracy import FitOutcome, FitRows, Labels
    from simfrontier.base.workers import Place
    from simfrontier.inputs.measured import Setup


def calibrate(
    data: Annotated[
        list[Path],
        typer.Argument(
            help="CSV tables, output of nccl-tests, rccl-tests (text, JSON, CSV) or OSU, logs of NCCL's Inspector or "
            "DeepSpeed's communication, dumps of PyTorch's flight recorder, calibrations (.toml), real traces; folders"
        ),
    ],
    out: Annotated[Path, typer.Option(help="calibration file to write (.toml)")],
    fit: Annotated[
        bool | None,
        typer.Option(
            "--fit/--tables",
            help="fit the library's free parameters, or keep the times as tables (default: fit if there is a CSV file)",
        ),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(help="machine (name or TOML file), if the data are of several or do not say; a,b fits both"),
    ] = None,
    library: Annotated[str | None, typer.Option(help="library, if the data are of several or do not say")] = None,
    devices: options.GroupDevices = None,
    nodes: options.GroupNodes = None,
    packages: options.GroupPackages = None,
    min_bytes: Annotated[str | None, typer.Option(help="fit only messages of at least this size, e.g. 64KiB")] = None,
    page: Annotated[Path | None, typer.Option(help="page with plots of the fit (default: OUT.html)")] = None,
    where: Annotated[
        str | None, typer.Option(help="place of the measurement (default: hosts in logs, machines)")
    ] = None,
    when: Annotated[str | None, typer.Option(help="date of the measurement (default: the dates of the files)")] = None,
    title: Annotated[str | None, typer.Option(help="title of the calibration")] = None,
    jobs: options.Jobs = None,
    scheduler: options.Scheduler = None,
    slurm: options.Slurm = None,
    dashboard: options.Dashboard = False,
    json: Annotated[bool, typer.Option("--json", help="print the calibration as JSON")] = False,
) -> None:
    """Write a calibration (library.calibration of a scenario) from measured times of collectives: tables of times, or
    the fitted parameters of a library with 90 % intervals and cross-validated errors."""
    from simfrontier.answers.accuracy import Labels
    from simfrontier.core.machine import load_machine
    from simfrontier.inputs.measured import Setup, files_in, is_table

    place = options.place_of(jobs, scheduler, slurm, dashboard)
    if out.suffix != ".toml":
        raise InputError(f"--out: got {str(out)!r}; allowed: a name that ends in .toml")
    given = {
        **{"--machine": machine, "--library": library, "--devices": devices, "--nodes": nodes},
        **{"--packages": packages, "--min-bytes": min_bytes},
    }
    data = list(dict.fromkeys(data))
    words = "" if fit is None else (" --fit" if fit else " --tables")
    words += "".join(f" {option} {value}" for option, value in given.items() if value is not None)
    how = f"simfrontier calibrate {' '.join(file.name for file in data)}{words} --out {out.name}"
    labels = Labels(where=where, when=when, title=title, how=how)
    machines = options.names_of("--machine", machine, "frontier,lumi-g")
    for name in machines:
        load_machine(name)
    alone = machines[0] if len(machines) == 1 else None
    setup = Setup(machine=alone, library=library, devices=devices, nodes=nodes, packages=packages)
    if any(map(is_table, files_in(data))) if fit is None else fit:
        least = 0 if min_bytes is None else options.num_bytes("--min-bytes", min_bytes)
        _fit(data, out, page or out.with_suffix(".html"), setup, labels, machines, least, json, place)
        return
    of_a_fit = {"--min-bytes": min_bytes, "--page": page, "--scheduler": scheduler, "--slurm": slurm}
    options.refuse(of_a_fit, "for tables of times; allowed: only with a fit (--fit)")
    if len(machines) > 1:
        raise InputError(f"--machine: got {machine!r} for tables of times; allowed: one machine")
    _tables(data, out, setup, labels, json)


def _tables(files: list[Path], out: Path, setup: Setup, labels: Labels, as_json: bool) -> None:
    """Write a calibration of tables, and print its contents."""
    from simfrontier.answers.accuracy import calibration_of_files
    from simfrontier.core.collectives import write_calibration
    from simfrontier.interfaces.cli.terminal.calibrate import calibration_document, print_calibration
    from simfrontier.interfaces.report import said

    made = calibration_of_files(files, setup, labels)
    write_calibration(made.calibration, out)
    lines = [*made.notes, *said("calibrate", "tables", made)]
    if as_json:
        print_json({**calibration_document(made.calibration, out), "said": lines})
    else:
        print_calibration(made.calibration, out, lines)


def _fit(
    files: Sequence[Path],
    out: Path,
    page: Path,
    setup: Setup,
    labels: Labels,
    machines: Sequence[str],
    min_bytes: int,
    as_json: bool,
    place: Place,
) -> None:
    """Write a calibration of fitted parameters and its page, and print the results."""
    from simfrontier.answers.accuracy import choose, date_of, faults_of
    from simfrontier.base.wholefile import write_whole
    from simfrontier.core.collectives import write_calibration
    from simfrontier.inputs.measured import readings
    from simfrontier.interfaces.cli.terminal.calibrate import fit_document, print_fit
    from simfrontier.interfaces.report import calibration_page

    if page == out:
        raise InputError(f"got {page}, the calibration itself; allowed: another file", where="--page")
    read = readings(files, setup)
    rows = [row for reading in read for row in reading.rows]
    left_out = [text for reading in read for text in reading.said]
    with faults_of(files):
        done = _fitted(choose(rows, machines, setup.library, min_bytes), place)
    measured_at = labels.where or ", ".join(done.chosen.machines)
    calibration = done.calibration(
        title=labels.title or f"fit of {done.chosen.library} on {measured_at}",
        where=measured_at,
        when=labels.when or "; ".join(dict.fromkeys(date_of(reading.path) for reading in read)),
        how=labels.how,
    )
    made = calibration_page(done, calibration)
    write_calibration(calibration, out)
    write_whole(page, made)
    if as_json:
        print_json(fit_document(done, calibration, out, page, left_out))
    else:
        print_fit(done, calibration, out, page, left_out)


def _fitted(chosen: FitRows, place: Place) -> FitOutcome:
    """Fit the chosen rows, and again without each device count."""
    from simfrontier.answers.accuracy import FitOutcome, cross_validated, fit, places_of, problem_of
    from simfrontier.base.workers import Workers, for_calls

    problem = problem_of(chosen.library, chosen.rows)
    places = places_of(problem)
    with progress(f"fit to {len(chosen.rows):,} points", 1 + len(places)) as report:
        fitted = fit(problem)
        with Workers(for_calls(place, len(places))) as workers:
            crossed = cross_validated(
                problem, lambda place: report(f"fit without {place[0]}, {place[1]:,} devices"), workers
            )
    return FitOutcome(chosen=chosen, problem=problem, fitted=fitted, cross_validation=crossed)
