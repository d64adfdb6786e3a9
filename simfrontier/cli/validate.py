"""`simfrontier validate`: measured tables and published runs compared with the models, as tables, JSON or a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer

from simfrontier.accuracy import (
    RunsValidation,
    is_of_runs,
    read_runs,
    validate_files,
    validate_runs,
    validate_shipped,
    validate_shipped_runs,
)
from simfrontier.cli.accuracy_json import runs_document, tables_document
from simfrontier.cli.accuracy_tables import print_runs, print_validation
from simfrontier.errors import InputError
from simfrontier.measured import Setup
from simfrontier.report import write_runs_page, write_validation_page
from simfrontier.wholefile import ensure_writable, filled
from simfrontier.workers import Place, Workers, for_calls


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
    options = {**asdict(setup), "harness": harness}
    _refuse_options(data, options, cross)
    if out is not None:
        ensure_writable(out, "index.html")
    if any(map(is_of_runs, data)):
        return validate_own_runs(data, options, out, as_json, place)
    runs: RunsValidation | None = None
    if data:
        done = validate_files(data, setup, harness)
    elif cross is False:
        done = validate_shipped(False)
    else:
        with Workers(place) as workers:
            done, runs = validate_shipped(True, workers), validate_shipped_runs(workers)
    if out is not None:
        with filled(out, "validate") as new:
            write_validation_page(done, new / "index.html")
            if runs is not None:
                write_runs_page(runs, new / "runs.html")
    if as_json:
        _echo(tables_document(done) | ({} if runs is None else {"runs": runs_document(runs)}))
    else:
        print_validation(done, out)
        if runs is not None:
            print_runs(runs, None)
    return done.holds


def validate_own_runs(
    data: Sequence[Path], options: Mapping[str, object], out: Path | None, as_json: bool, place: Place
) -> bool:
    """Training runs of a user's files against the shipped numbers; there is no bound that they could miss. Raises
    InputError."""
    for path in data:
        if not is_of_runs(path):
            raise InputError(f"{path}: times beside a table of training runs; allowed: files of one sort")
    for option, value in options.items():
        if value is not None:
            raise InputError(f"--{option}: got {value!r} beside training runs, whose columns say all; allowed: without")
    runs = [run for path in data for run in read_runs(path)]
    numbered = [replace(run, number=number) for number, run in enumerate(runs)]
    with Workers(for_calls(place, len(numbered))) as workers:
        done = validate_runs(numbered, " and ".join(path.name for path in data), workers)
    if out is not None:
        with filled(out, "validate") as new:
            write_runs_page(done, new / "index.html")
    if as_json:
        _echo(runs_document(done))
    else:
        print_runs(done, out)
    return True


def _echo(document: dict[str, Any]) -> None:
    typer.echo(json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False))


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
