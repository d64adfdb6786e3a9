"""`simfrontier calibrate`: measured times as a calibration, of tables of calls or of a library's fitted parameters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import typer

from simfrontier.accuracy import (
    FitOutcome,
    FitRows,
    Labels,
    calibration_of_files,
    choose,
    cross_validated,
    date_of,
    faults_of,
    fit,
    places_of,
    problem_of,
)
from simfrontier.cli.accuracy_json import calibration_document, fit_document
from simfrontier.cli.accuracy_tables import print_calibration, print_fit
from simfrontier.cli.bar import bar_of_work
from simfrontier.collectives import write_calibration
from simfrontier.errors import InputError
from simfrontier.measured import Setup, readings
from simfrontier.report import calibration_page, said
from simfrontier.wholefile import write_whole
from simfrontier.workers import HERE, Place, Workers, for_calls


def calibrate_tables(files: list[Path], out: Path, setup: Setup, labels: Labels, as_json: bool) -> None:
    """Read everything, write the calibration, print what is in it. Raises InputError."""
    made = calibration_of_files(files, setup, labels)
    write_calibration(made.calibration, out)
    lines = [*made.notes, *said("calibrate", "tables", made)]
    if as_json:
        typer.echo(
            json.dumps({**calibration_document(made.calibration, out), "said": lines}, indent=1, ensure_ascii=False)
        )
    else:
        print_calibration(made.calibration, out, lines)


def calibrate_fit(
    files: Sequence[Path],
    out: Path,
    page: Path | None,
    setup: Setup,
    labels: Labels,
    machines: Sequence[str],
    min_bytes: int,
    as_json: bool,
    place: Place,
) -> None:
    """Read, choose, fit and cross-validate; write the calibration and its page, print what was found.

    `page`: beside `out` where None. `place`: where it is cross-validated. Raises InputError.
    """
    page = page or out.with_suffix(".html")
    if page == out:
        raise InputError(f"got {page}, the calibration itself; allowed: another file", where="--page")
    read = readings(files, setup)
    rows = [row for reading in read for row in reading.rows]
    left_out = [text for reading in read for text in reading.said]
    with faults_of(files):
        done = fit_chosen(choose(rows, machines, setup.library, min_bytes), place)
    chosen = done.chosen
    measured_at = labels.where or ", ".join(chosen.machines)
    calibration = done.calibration(
        title=labels.title or f"fit of {chosen.library} on {measured_at}",
        where=measured_at,
        when=labels.when or "; ".join(dict.fromkeys(date_of(reading.path) for reading in read)),
        how=labels.how,
    )
    made = calibration_page(done, calibration)
    write_calibration(calibration, out)
    write_whole(page, made)
    if as_json:
        document = fit_document(done, calibration, out, page, left_out)
        typer.echo(json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False))
    else:
        print_fit(done, calibration, out, page, left_out)


def fit_chosen(chosen: FitRows, place: Place = HERE) -> FitOutcome:
    """The fit to the chosen rows and those without each device count; a bar shows how far it is. Raises InputError."""
    problem = problem_of(chosen.library, chosen.rows)
    places = places_of(problem)
    with bar_of_work() as bar:
        task = bar.add_task(f"fit to {len(chosen.rows):,} points", total=1 + len(places))
        fitted = fit(problem)
        with Workers(for_calls(place, len(places))) as workers:
            crossed = cross_validated(
                problem,
                lambda place: bar.update(task, advance=1, description=f"fit without {place[0]}, {place[1]:,} devices"),
                workers,
            )
    return FitOutcome(chosen=chosen, problem=problem, fitted=fitted, cross_validation=crossed)
