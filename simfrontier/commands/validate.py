"""`simfrontier validate`: measured tables held against the shipped models, as a table, JSON or a page."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table as Grid

from simfrontier.commands.folder import ensure_writable, filled
from simfrontier.errors import InputError
from simfrontier.measured import CallRow, Setup, Table, load_tables, read_any
from simfrontier.measured.index import Row
from simfrontier.report.validation_words import apart, findings, lead_sentence
from simfrontier.report.words import NOTHING, percent
from simfrontier.validation.bounds import Judged, load_bounds
from simfrontier.validation.models import Models, shipped_models
from simfrontier.validation.outcome import Held
from simfrontier.validation.rates import Bounded
from simfrontier.validation.run import Validation, validate
from simfrontier.validation.summary import Errors, Summary


def validate_tables(data: Sequence[Path], setup: Setup, cross: bool, out: Path | None, as_json: bool) -> bool:
    """Hold the shipped tables, or the files in `data`, against the shipped models; say what was found, write the page
    to `out`. `cross`: fitted rows of shipped tables by fits that have not seen their number of devices. Returns whether
    every bound holds; files of a user are held to none. Raises InputError."""
    if out is not None:
        ensure_writable(out)
    done = held_files(data, setup) if data else held_shipped(cross)
    if out is not None:
        from simfrontier.report.validation import write_validation_page

        with filled(out) as new:
            write_validation_page(done, new / "index.html")
    if as_json:
        typer.echo(json.dumps(as_document(done), indent=1, allow_nan=False, ensure_ascii=False))
    else:
        print_validation(done, out)
    return done.holds


def held_shipped(cross: bool) -> Validation:
    """The tables that simfrontier brings along, and the bounds that they are held to."""
    if not cross:
        return validate(load_tables(), shipped_models(), load_bounds())
    from simfrontier.commands.validate_cross import left_out

    return validate(load_tables(), shipped_models(), load_bounds(), left_out())


def held_files(paths: Sequence[Path], setup: Setup) -> Validation:
    """Files of a user. Raises InputError for a file that cannot be read, or of which nothing can be predicted."""
    shipped = load_tables()
    faults = tuple(pathology for table in shipped if table.form == "calls" for pathology in table.pathologies)
    files = list(dict.fromkeys(paths))
    are_told_apart = len({path.name for path in files}) == len(files)
    tables = [
        Table(
            name=path.name if are_told_apart else str(path),
            file=str(path),
            form="calls",
            title=path.name,
            citation="",
            method="",
            caveats=(),
            rows=read_any(path, setup),
            pathologies=faults,
        )
        for path in files
    ]
    done = validate(tables, _knowing(shipped, shipped_models()))
    for table in tables:
        _refuse_unpredicted(done.of(table.name), table.file)
    return done


def _knowing(shipped: Iterable[Table], models: Models) -> Models:
    """The models, which were fitted to a user's row only where it is a row of a shipped table."""
    seen = {
        _measured(row) for table in shipped for row in table.rows if isinstance(row, CallRow) and models.fitted(row)
    }
    return Models(predict=models.predict, fitted=lambda row: isinstance(row, CallRow) and _measured(row) in seen)


def _measured(row: CallRow) -> tuple[str, str, str, int, int, float]:
    return row.machine, row.collective, row.library, row.devices, row.num_bytes, row.seconds


def _refuse_unpredicted(rows: Sequence[Held], name: str) -> None:
    if any(row.prediction is not None for row in rows):
        return
    [(why, number)] = Counter(row.why for row in rows).most_common(1)
    raise InputError(f"{name}: none of its {len(rows):,} rows can be predicted: {why} ({number:,} rows)")


# ── for a program ──


def as_document(done: Validation) -> dict[str, Any]:
    """Every row with its prediction, the errors of every table, and the bounds."""
    return {
        "holds": done.holds,
        "said": [_plain(said) for said in (lead_sentence(done), *findings(done))],
        "overall": _summary_document(done.overall),
        "tables": {
            table.name: {
                "title": table.title,
                "citation": table.citation,
                "method": table.method,
                "caveats": table.caveats,
                **_summary_document(summary),
            }
            for table in done.tables
            for summary in done.summaries
            if summary.name == table.name
        },
        "bounds": [_bound_document(each) for each in done.judged],
        "training": [_training_document(each) for each in done.bounded],
        "rows": [row_document(row) for row in done.rows],
    }


def row_document(held: Held) -> dict[str, Any]:
    """A row under the names of its file's columns, and what is predicted."""
    made = held.prediction
    return {
        "table": held.table,
        **_columns(held.row),
        "time_s": held.measured_s,
        "predicted_s": made and made.predicted_s,
        "low_s": made and _finite(made.low_s),
        "high_s": made and _finite(made.high_s),
        "error": held.error,
        "harness_s": made and made.harness_s,
        "use": held.use,
        "why": held.why,
    }


def _columns(row: Row) -> dict[str, Any]:
    names = {"num_bytes": "bytes", "seconds": "time_s"}
    return {names.get(name, name): value for name, value in asdict(row).items()}


def _summary_document(summary: Summary) -> dict[str, Any]:
    return {
        "num_rows": summary.num_rows,
        "num_pathologies": summary.num_pathologies,
        "num_not_predicted": summary.num_unknown,
        "errors": _errors_document(summary.errors),
        "by_use": {use: _errors_document(errors) for use, errors in summary.by_use.items()},
    }


def _errors_document(errors: Errors | None) -> dict[str, Any] | None:
    if errors is None:
        return None
    numbers = {name: getattr(errors, name) for name in ("count", "median", "mean_abs", "p90_abs", "covered")}
    return {**numbers, "worst": row_document(errors.worst)}


def _bound_document(judged: Judged) -> dict[str, Any]:
    return {**asdict(judged.bound), "holds": judged.holds, "errors": _errors_document(judged.errors)}


def _training_document(bounded: Bounded) -> dict[str, Any]:
    return {
        **_columns(bounded.row),
        "published_flops_per_s": bounded.published_flops_per_s,
        "bound_flops_per_s": bounded.bound_flops_per_s,
        "holds": bounded.holds,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


# ── for a person ──

_HEAD = ("table", "rows", "median error", "mean", "90th pct", "farthest", "in 90 %")


def print_validation(done: Validation, out: Path | None) -> None:
    """A table of errors and what they come to, for a person."""
    console = Console(markup=False, emoji=False, highlight=False)
    grid = Grid(
        title="predicted / measured − 1",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for place, name in enumerate(_HEAD):
        grid.add_column(name, justify="right" if place else "left", no_wrap=place > 0, overflow="fold")
    for summary in done.summaries:
        grid.add_row(summary.name, *_cells(summary.errors), style="bold" if summary.name not in _names(done) else "")
        for use, errors in summary.by_use.items():
            grid.add_row(f"  {use}", *_cells(errors), style="dim")
    console.print(grid)
    console.print(_plain(lead_sentence(done)), style="bold")
    for said in findings(done):
        console.print(_plain(f"– {said}"))
    if out is not None:
        console.print(f"Written: {out / 'index.html'} (open it in a browser)", soft_wrap=True)


def _names(done: Validation) -> set[str]:
    return {table.name for table in done.tables}


def _cells(errors: Errors | None) -> tuple[str, ...]:
    if errors is None:
        return ("0", *[NOTHING] * 5)
    inside = NOTHING if errors.covered is None else percent(errors.covered)
    shown = (apart(errors.median), percent(errors.mean_abs), percent(errors.p90_abs), apart(errors.worst.error), inside)
    return (f"{errors.count:,}", *map(_plain, shown))


def _plain(text: str) -> str:
    """With blanks as a terminal and a search know them."""
    return text.replace("\u00a0", " ")
