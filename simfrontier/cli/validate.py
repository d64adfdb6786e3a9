"""`simfrontier validate`: measured tables compared with the shipped models, as a table, JSON or a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from simfrontier.accuracy import BoundedRate, ComparedRow, Errors, JudgedBound, Summary, Validation
from simfrontier.api import validate_files, validate_shipped
from simfrontier.cli.console import console, finite, grid, plain, say, say_written
from simfrontier.errors import InputError
from simfrontier.measured import Row, Setup
from simfrontier.report import NOTHING, lines_of, percent, said, signed, validation_findings
from simfrontier.wholefile import ensure_writable, filled
from simfrontier.workers import Place, Workers, for_calls

if TYPE_CHECKING:
    from simfrontier.accuracy import RunsValidation


def validate_tables(
    data: Sequence[Path],
    setup: Setup,
    harness: str | None,
    cross: bool | None,
    out: Path | None,
    as_json: bool,
    place: Place,
) -> bool:
    """Compare the shipped tables, or the files in `data`, with the shipped models; print the result, write the page
    to `out`. `harness`: names of those whose time is in `data` (None: by the sources). `cross`: fitted rows
    of shipped tables by fits that have not seen their number of devices (None: so). Returns whether every bound holds;
    files of a user have none. `place`: where fits are made and steps of runs timed. Raises InputError."""
    from simfrontier.accuracy import is_of_runs, validate_shipped_runs
    from simfrontier.cli.validate_runs import print_runs, runs_document

    _refuse_options(data, {**asdict(setup), "harness": harness}, cross)
    if out is not None:
        ensure_writable(out, "index.html")
    if any(map(is_of_runs, data)):
        return validate_own_runs(data, setup, harness, out, as_json, place)
    runs: RunsValidation | None = None
    if data:
        done = validate_files(data, setup, harness)
    elif cross is False:
        done = validate_shipped(False)
    else:
        with Workers(place) as workers:
            done, runs = validate_shipped(True, workers), validate_shipped_runs(workers)
    if out is not None:
        from simfrontier.report import write_runs_page, write_validation_page

        with filled(out, "validate") as new:
            write_validation_page(done, new / "index.html")
            if runs is not None:
                write_runs_page(runs, new / "runs.html")
    if as_json:
        document = as_document(done) | ({} if runs is None else {"runs": runs_document(runs)})
        typer.echo(json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False))
    else:
        print_validation(done, out)
        if runs is not None:
            print_runs(runs, None)
    return done.holds


def validate_own_runs(
    data: Sequence[Path], setup: Setup, harness: str | None, out: Path | None, as_json: bool, place: Place
) -> bool:
    """Training runs of a user's files against the shipped numbers; there is no bound that they could miss. Raises
    InputError."""
    from simfrontier.accuracy import is_of_runs, read_runs, validate_runs
    from simfrontier.cli.validate_runs import print_runs, runs_document

    for path in data:
        if not is_of_runs(path):
            raise InputError(f"{path}: times beside a table of training runs; allowed: files of one sort")
    for option, value in {**asdict(setup), "harness": harness}.items():
        if value is not None:
            raise InputError(f"--{option}: got {value!r} beside training runs, whose columns say all; allowed: without")
    runs = [run for path in data for run in read_runs(path)]
    numbered = [replace(run, number=number) for number, run in enumerate(runs)]
    with Workers(for_calls(place, len(numbered))) as workers:
        done = validate_runs(numbered, " and ".join(path.name for path in data), workers)
    if out is not None:
        from simfrontier.report import write_runs_page

        with filled(out, "validate") as new:
            write_runs_page(done, new / "index.html")
    if as_json:
        typer.echo(json.dumps(runs_document(done), indent=1, allow_nan=False, ensure_ascii=False))
    else:
        print_runs(done, out)
    return True


def _refuse_options(data: Sequence[Path], known: Mapping[str, object], cross: bool | None) -> None:
    """Raise InputError for options of files without files, or of the shipped tables beside files."""
    for option, value in known.items():
        if value is not None and not data:
            raise InputError(f"--{option}: got {value!r} without --data; allowed: only beside a file of your own")
    if cross is not None and data:
        option = "--cross" if cross else "--no-cross"
        raise InputError(
            f"{option}: got --data too; allowed: without it, for the tables that the models were fitted to"
        )


# ── for a program ──


def as_document(done: Validation) -> dict[str, Any]:
    """Every row with its prediction, the errors of every table, and the bounds."""
    found = validation_findings(done)
    by_name = {summary.name: summary for summary in done.summaries}
    return {
        "holds": done.holds,
        "said": [plain(text) for name in ("lead", "findings") for text in said("validate", name, found)],
        "notes": [plain(note) for note in done.notes],
        "overall": _summary_document(done.overall),
        "tables": {
            table.name: {
                "title": table.title,
                "citation": table.citation,
                "method": table.method,
                "caveats": table.caveats,
                **_summary_document(by_name[table.name]),
            }
            for table in done.tables
        },
        "not_predicted": [{"why": why, "rows": len(rows)} for why, rows in found.unknown.items()],
        "bounds": [_bound_document(each) for each in done.judged_bounds],
        "training": [_training_document(each) for each in done.bounded],
        "rows": [row_document(row) for row in done.rows],
    }


def row_document(row: ComparedRow) -> dict[str, Any]:
    """A row under the names of its file's columns, and what is predicted."""
    made = row.prediction
    return {
        "table": row.table,
        **_columns(row.row),
        "time_s": row.measured_s,
        "predicted_s": made and made.predicted_s,
        "low_s": made and finite(made.low_s),
        "high_s": made and finite(made.high_s),
        "error": row.error,
        "harness_s": made and made.harness_s,
        "use": row.use,
        "why": row.reason,
    }


def _columns(row: Row) -> dict[str, Any]:
    names = {"num_bytes": "bytes", "seconds": "time_s"}
    row_json = asdict(row) | {"place": str(row.place)}
    return {names.get(name, name): value for name, value in row_json.items()}


def _summary_document(summary: Summary) -> dict[str, Any]:
    return {
        "num_rows": summary.num_rows,
        "num_pathologies": summary.num_pathologies,
        "num_not_predicted": summary.num_unknown,
        "errors": _errors_document(summary.errors),
        "unseen": _errors_document(summary.unseen),
        "by_use": {use: _errors_document(errors) for use, errors in summary.by_use.items()},
    }


def _errors_document(errors: Errors | None) -> dict[str, Any] | None:
    if errors is None:
        return None
    numbers = {name: getattr(errors, name) for name in ("count", "median", "mean_abs", "p90_abs", "covered")}
    return {**numbers, "worst": row_document(errors.worst)}


def _bound_document(judged: JudgedBound) -> dict[str, Any]:
    errors = _errors_document(judged.errors)
    return {**asdict(judged.bound), "holds": judged.holds, "rows": judged.uses, "errors": errors}


def _training_document(bounded: BoundedRate) -> dict[str, Any]:
    return {
        **_columns(bounded.row),
        "published_flops_per_s": bounded.published_flops_per_s,
        "bound_flops_per_s": bounded.bound_flops_per_s,
        "holds": bounded.holds,
    }


# ── for a person ──

_BOUNDS_HEAD = ("series", "which", "rows", "mean", "allowed", "90th pct", "allowed")
_HEAD = ("table", "which", "rows", "median", "mean", "90th pct", "farthest", "in 90 %")


def print_validation(done: Validation, out: Path | None) -> None:
    """A table of errors and what they come to, for a person."""
    screen, found = console(), validation_findings(done)
    table = grid("predicted / measured − 1, all sizes", _HEAD, words=("table",), left=("which",), gap=0)
    for summary in done.summaries:
        for place, (words, errors) in enumerate(lines_of(summary)):
            name = summary.name if place == 0 else ""
            style = "dim" if words == "fitted" else "bold" if "+" in words else ""
            table.add_row(name, words.replace(" + ", "\n+ ") or NOTHING, *_cells(errors), style=style)
    screen.print(table)
    if done.judged_bounds:
        bounds = grid("what tables are held to", _BOUNDS_HEAD, words=("series",), left=("which",), gap=0)
        for each in done.judged_bounds:
            bounds.add_row(each.bound.series, *_bound_cells(each), style="" if each.holds else "bold red")
        screen.print(bounds)
    say("validate", "lead", found, style="bold")
    say("validate", "findings", found, before="– ")
    say_written(out)


def _bound_cells(judged: JudgedBound) -> tuple[str, ...]:
    bound, errors = judged.bound, judged.errors
    means = (percent(errors.mean_abs) if errors else NOTHING, percent(bound.mean_abs))
    p90s = (percent(errors.p90_abs) if errors else NOTHING, percent(bound.p90_abs)) if bound.p90_abs else ("", "")
    count = f"{errors.count:,}" if errors else "0"
    return (", ".join(judged.uses), count, *map(plain, (*means, *p90s)))


def _cells(errors: Errors | None) -> tuple[str, ...]:
    if errors is None:
        return ("0", *[NOTHING] * 5)
    off = (signed(errors.median), percent(errors.mean_abs), percent(errors.p90_abs), signed(errors.worst.error))
    shown = (*off, percent(errors.covered))
    return (f"{errors.count:,}", *map(plain, shown))
