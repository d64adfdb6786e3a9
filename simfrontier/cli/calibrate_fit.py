"""`simfrontier calibrate --fit`: a library's free parameters fitted to measured times, checked on points left out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from simfrontier.accuracy import (
    FitOutcome,
    FitRows,
    Labels,
    Parameter,
    choose,
    cross_validated,
    date_of,
    error_summary,
    faults_of,
    fit,
    places_of,
    problem_of,
)
from simfrontier.cli.bar import bar_of_work
from simfrontier.cli.console import console, grid, plain, say
from simfrontier.collectives import Calibration, ErrorSummary, write_calibration
from simfrontier.errors import InputError
from simfrontier.measured import Setup, readings
from simfrontier.report import NOTHING, calibration_page, exactly, percent, said
from simfrontier.wholefile import write_whole
from simfrontier.workers import HERE, Place, Workers, for_calls


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
        document = as_document(done, calibration, out, page, left_out)
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


# ── for a program ──


def as_document(
    done: FitOutcome, calibration: Calibration, out: Path, page: Path, left_out: Sequence[str] = ()
) -> dict[str, Any]:
    """The parameters, the errors, and every point as it is predicted; `left_out`: what of the files is no row."""
    return {
        "file": str(out),
        "page": str(page),
        **{key: getattr(calibration, key) for key in ("title", "where", "when", "how")},
        "said": [
            *(plain(text) for name in ("lead", "findings") for text in said("calibrate", name, done)),
            *left_out,
        ],
        "parameters": [asdict(parameter) for parameter in done.parameters],
        "shipped": asdict(error_summary(done.shipped)),
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
                "left_out_s": None if math.isnan(left_out) else row.seconds * math.exp(left_out),
                "source": row.source,
            }
            for row, fitted, left_out in zip(
                done.chosen.rows, done.fitted.errors.tolist(), done.cross_validation.errors.tolist(), strict=True
            )
        ],
    }


# ── for a person ──

LEAST_WIDTH = 108  # names of parameters are long, and no use in pieces
_PARAMETERS = ("parameter", "value", "90 % interval", "in the file")
_FAR = ("points", "mean error", "90th pct", "farthest", "spread")


def print_fit(done: FitOutcome, calibration: Calibration, out: Path, page: Path, left_out: Sequence[str] = ()) -> None:
    """Parameters, errors fitted and left out, and what they come to; `left_out`: what of the files is no row."""
    screen = console()
    screen.width = max(screen.width, LEAST_WIDTH)
    screen.print(f"{calibration.title} ({calibration.when})", soft_wrap=True)
    screen.print(_table(_PARAMETERS, (_parameter_cells(one) for one in done.parameters)))
    screen.print(
        _table(("", *_FAR), (("".join(said("calibrate", "line", one)), *_far_cells(one.far)) for one in done.lines))
    )
    screen.print("spread: standard deviation of log(predicted / measured); 0.1 is about 10 %", style="dim")
    say("calibrate", "lead", done, style="bold", screen=screen)
    say("calibrate", "findings", done, before="– ", screen=screen)
    for text in left_out:
        screen.print(f"– {text}", soft_wrap=True, markup=False, highlight=False)
    screen.print(f"Written: {out}; a scenario names it as library.calibration. Plots: {page}", soft_wrap=True)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = grid(None, heads, words=(), left=heads[:1])
    for cells in rows:
        table.add_row(*cells)
    return table


def _parameter_cells(one: Parameter) -> tuple[str, ...]:
    known = plain(exactly(one.file_value, one.unit))
    if one.value is None or one.interval is None:
        return one.key, NOTHING, "not shown by the data", known
    low, high = (plain(exactly(end, one.unit)) for end in one.interval)
    return one.key, plain(exactly(one.value, one.unit)), f"{low} to {high}", known


def _far_cells(far: ErrorSummary) -> tuple[str, ...]:
    shares = (far.mean_abs_error, far.p90_abs_error, far.worst_abs_error)
    return (f"{far.points:,}", *(plain(percent(share)) for share in shares), f"{far.residual_sd:.3f}")
