"""`simfrontier calibrate`: write a calibration from measured times of collectives, as tables or as fitted
parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from simfrontier.answers import accuracy
from simfrontier.answers.accuracy import fit
from simfrontier.base.errors import InputError
from simfrontier.base.units import counted, written
from simfrontier.base.wholefile import write_whole
from simfrontier.base.workers import Place, Workers, for_calls
from simfrontier.core.collectives import Calibration, CallTable, write_calibration
from simfrontier.core.machine import load_machine
from simfrontier.inputs.measured import Setup, files_in, is_table, readings
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import print_json, say, tell
from simfrontier.interfaces.progress import progress
from simfrontier.interfaces.report.measured import calibration_page, errors_table, parameters_table
from simfrontier.interfaces.report.render import said
from simfrontier.interfaces.report.table import Table

LEAST_WIDTH = 108  # names of parameters are long, and no use in pieces
_CALLS = ("kind", "ranks", "nodes", "packages", "points", "bytes", "seconds", "residual")


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
    labels = accuracy.Labels(where=where, when=when, title=title, how=how)
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


def _tables(files: list[Path], out: Path, setup: Setup, labels: accuracy.Labels, as_json: bool) -> None:
    """Write a calibration of tables, and print its contents."""
    made = accuracy.calibration_of_files(files, setup, labels)
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
    labels: accuracy.Labels,
    machines: Sequence[str],
    min_bytes: int,
    as_json: bool,
    place: Place,
) -> None:
    """Write a calibration of fitted parameters and its page, and print the results."""
    if page == out:
        raise InputError(f"got {page}, the calibration itself; allowed: another file", where="--page")
    read = readings(files, setup)
    rows = [row for reading in read for row in reading.rows]
    left_out = [text for reading in read for text in reading.said]
    with accuracy.faults_of(files):
        done = _fitted(accuracy.choose(rows, machines, setup.library, min_bytes), place)
    measured_at = labels.where or ", ".join(done.chosen.machines)
    calibration = done.calibration(
        title=labels.title or f"fit of {done.chosen.library} on {measured_at}",
        where=measured_at,
        when=labels.when or "; ".join(dict.fromkeys(accuracy.date_of(reading.path) for reading in read)),
        how=labels.how,
    )
    made = calibration_page(done, calibration)
    write_calibration(calibration, out)
    write_whole(page, made)
    if as_json:
        print_json(fit_document(done, calibration, out, page, left_out))
    else:
        print_fit(done, calibration, out, page, left_out)


def _fitted(chosen: accuracy.FitRows, place: Place) -> accuracy.FitOutcome:
    """Fit the chosen rows, and fit again with the rows of each device count left out (cross-validation)."""
    problem = accuracy.problem_of(chosen.library, chosen.rows)
    places = accuracy.places_of(problem)
    with progress(f"fit to {len(chosen.rows):,} points", 1 + len(places)) as report:
        fitted = fit(problem)
        with Workers(for_calls(place, len(places))) as workers:
            crossed = accuracy.cross_validated(
                problem, lambda place: report(f"fit without {place[0]}, {place[1]:,} devices"), workers
            )
    return accuracy.FitOutcome(chosen=chosen, problem=problem, fitted=fitted, cross_validation=crossed)


# ── for a program ──


def calibration_document(calibration: Calibration, out: Path) -> dict[str, object]:
    """Return the texts and numbers of a calibration and the shapes of its tables, as a JSON document."""
    return {
        "file": str(out),
        **{key: getattr(calibration, key) for key in ("title", "where", "when", "how")},
        "machine": dict(calibration.machine),
        "library": dict(calibration.library),
        "calls": [
            {
                "kind": call.kind,
                "ranks": call.ranks,
                "nodes": call.nodes,
                "packages": call.packages,
                "points": len(call.points),
                "smallest_bytes": call.points[0].bytes,
                "largest_bytes": call.points[-1].bytes,
                "largest_message_bytes_per_s": 1.0 / call.seconds_per_byte,
                "residual": call.residual,
            }
            for call in calibration.calls
        ],
    }


def fit_document(
    done: accuracy.FitOutcome, calibration: Calibration, out: Path, page: Path, left_out: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the fitted parameters, the errors, and every measured point with its prediction, as a JSON document;
    `left_out`: entries of the input files that could not be used as rows."""
    return {
        "file": str(out),
        "page": str(page),
        **{key: getattr(calibration, key) for key in ("title", "where", "when", "how")},
        "said": [*(text for name in ("lead", "findings") for text in said("calibrate", name, done)), *left_out],
        "parameters": [asdict(parameter) for parameter in done.parameters],
        "shipped": asdict(accuracy.error_summary(done.shipped)),
        "model_sd": done.model_sd,
        "covered": done.covered,
        "worse_than_shipped": done.worse is not None,
        "hardly_shown": list(done.hardly),
        "errors": [asdict(line) for line in done.lines],
        "fit": None if calibration.fit is None else asdict(calibration.fit),
        "set_aside": {str(missing): number for missing, number in done.chosen.set_aside.items()},
        "not_left_out": {
            f"{machine} {devices}": text for (machine, devices), text in done.cross_validation.faults.items()
        },
        "rows": [
            {
                "machine": row.machine,
                "collective": row.collective,
                "library": row.library,
                "devices": row.devices,
                "bytes": row.num_bytes,
                "time_s": row.seconds,
                "fitted_s": row.seconds * math.exp(fitted),
                "left_out_s": row.seconds * math.exp(left_out),
                "source": row.source,
            }
            for row, fitted, left_out in zip(
                done.chosen.rows, done.fitted.errors.tolist(), done.cross_validation.errors.tolist(), strict=True
            )
        ],
    }


# ── for a person ──


def print_calibration(calibration: Calibration, out: Path, lines: Sequence[str]) -> None:
    """Print a line per table of a calibration, then the sentences in `lines`."""
    typer.echo(calibration.title)
    typer.echo(f"where: {calibration.where}")
    typer.echo(f"when: {calibration.when}")
    rows = list(map(_call_cells, calibration.calls))
    tell(Table(None, _CALLS, rows, left=("kind", "bytes", "seconds")), least_width=LEAST_WIDTH)
    if calibration.machine or calibration.library:
        machine = counted(len(calibration.machine), "number")
        typer.echo(f"and {machine} of a machine, {len(calibration.library)} of a library")
    for one in lines:
        typer.echo(f"– {one}")
    typer.echo(f"Written: {out}; a scenario names it as library.calibration")


def _call_cells(call: CallTable) -> tuple[str, ...]:
    first, last = call.points[0], call.points[-1]
    sizes = f"{written(first.bytes, 'bytes')} to {written(last.bytes, 'bytes')}"
    times = f"{written(first.seconds, 's')} to {written(last.seconds, 's')}"
    residual = "–" if call.residual is None else f"{100 * call.residual:.1f} %"
    counts = map(str, (call.ranks, call.nodes, call.packages, len(call.points)))
    return call.kind, *counts, sizes, times, residual


def print_fit(
    done: accuracy.FitOutcome, calibration: Calibration, out: Path, page: Path, left_out: Sequence[str] = ()
) -> None:
    """Print the fitted parameters, the fitted and cross-validated errors, and the summary; `left_out`: entries of the
    input files that could not be used as rows."""
    tell(f"{calibration.title} ({calibration.when})")
    tell(parameters_table(done), errors_table(done), least_width=LEAST_WIDTH)
    tell("spread: standard deviation of log(predicted / measured); 0.1 is about 10 %", style="dim")
    say("calibrate", "lead", done, style="bold")
    say("calibrate", "findings", done, before="– ")
    tell(*(f"– {text}" for text in left_out))
    tell(f"Written: {out}; a scenario names it as library.calibration. Plots: {page}")
