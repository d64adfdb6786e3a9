"""Comparison of a user's measured files with the shipped models, and plausibility checks of the measured times."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from simfrontier.answers.accuracy.predictors import predict_row, row_fitted
from simfrontier.answers.accuracy.predictors.calls import Harness, harnesses_of, named_harnesses, shipped_harnesses
from simfrontier.answers.accuracy.residual import Residual, grouped
from simfrontier.answers.accuracy.validation import UnknownPrograms, Validation, WrongUnit, validate
from simfrontier.base.errors import InputError
from simfrontier.base.units import counted
from simfrontier.inputs.measured import (
    CallRow,
    KernelRow,
    Row,
    Setup,
    Table,
    call_faults,
    files_in,
    is_table,
    read_of_device,
    readings,
)

# By which factor all times are off, and what they look like then; they are said to be where they come this close.
_UNITS: Final = ((1e3, "like milliseconds"), (1e6, "like microseconds"), (1e-3, "a thousand times too short"))
_CLOSE: Final = 2.5  # a program whose own time is not known may add as much


def validate_files(paths: Sequence[Path], setup: Setup, harness: str | None) -> Validation:
    """Compare a user's files with the models. Raises InputError for a file that cannot be read or has no predictable
    row.

    `setup`: information that the files do not contain; `harness`: names of the measuring programs whose overhead is
    included in the times (None: determined by the sources of the rows).
    """
    harnesses = None if harness is None else named_harnesses(harness)
    tables, remarks = _own_tables(files_in(paths), setup)
    done = validate(tables, partial(predict_row, harnesses=harnesses), row_fitted)
    for table in tables:
        _refuse_unpredicted(done.of(table.name), table.file)
    _refuse_strange(harnesses or (), [row for table in tables for row in table.rows if isinstance(row, CallRow)])
    return replace(
        done,
        notes=remarks,
        wrong_units=tuple(_wrong_units(done.rows)),
        unknown_programs=_unknown_programs(done.rows) if harnesses is None else None,
    )


def _own_tables(files: Sequence[Path], setup: Setup) -> tuple[list[Table], tuple[str, ...]]:
    """Return the tables of a user's files (files of a job's ranks form one table), and notes on contents that became no
    row. Raises InputError.
    """
    of_device = {file: rows for file in files if (rows := read_of_device(file))}
    read = readings([file for file in files if file not in of_device], setup)
    found = [(file, _table(file, str(file), rows)) for file, rows in of_device.items()]
    found += [(reading.path, _table(reading.path, reading.name, reading.rows)) for reading in read]
    if all(file in of_device or is_table(file) for file in files):
        _refuse_setup(setup, files[0])
    tables = [table for _, table in sorted(found, key=lambda each: files.index(each[0]))]
    if len({table.name for table in tables}) < len(tables):  # files of one name in several folders
        tables = [replace(table, name=table.file) for table in tables]
    return tables, tuple(text for reading in read for text in reading.said)


def _table(path: Path, file: str, rows: Sequence[Row]) -> Table:
    """Return the table of a user's file; it has no citation."""
    return Table(
        name=path.name,
        file=file,
        form="calls" if isinstance(rows[0], CallRow) else "kernels" if isinstance(rows[0], KernelRow) else "rates",
        title=path.name,
        citation="",
        method="",
        rows=tuple(rows),
        pathologies=call_faults(),
    )


def _refuse_setup(setup: Setup, table: Path) -> None:
    """Raise InputError for setup options whose values the rows of the table already contain."""
    for option, value in asdict(setup).items():
        if value is not None:
            why = f"beside {table}, a table whose rows say it; allowed: beside output of nccl-tests or OSU"
            raise InputError(f"--{option}: got {value!r} {why}")


def _refuse_strange(harnesses: Sequence[Harness], rows: Sequence[CallRow]) -> None:
    """Raise InputError for a named measuring program that cannot have measured any of the rows."""
    for one in harnesses:
        if not any(map(one.may_cover, rows)):
            known = [each.name for each in shipped_harnesses() if any(map(each.may_cover, rows))]
            raise InputError(
                f"got {one.name!r}, which measured {', '.join(one.collectives)} by {one.library} on "
                f"{one.machine}: no row is of these; allowed: {', '.join([*known, 'none'])}",
                where="--harness",
            )


def _refuse_unpredicted(rows: Sequence[Residual[Row]], name: str) -> None:
    """Raise InputError if no row has a prediction, with the most common reason."""
    if any(row.prediction is not None for row in rows):
        return
    [(why, number)] = Counter(row.reason for row in rows).most_common(1)
    first = next(row.row.place for row in rows if row.reason == why).first
    raise InputError(
        f"{name}: none of its {counted(len(rows), 'row')} can be predicted: {why} ({counted(number, 'row')}{first})"
    )


def _wrong_units(rows: Sequence[Residual[Row]]) -> Iterator[WrongUnit]:
    """Yield the tables whose median time differs from the prediction by a factor of about a thousand or the like, which
    suggests a wrong unit.
    """
    for table, several in grouped(rows, lambda row: row.table).items():
        ratios = [1.0 / (1.0 + row.error) for row in several if row.error is not None]
        ratio = median(ratios) if ratios else 1.0
        for factor, looks in _UNITS:
            if abs(math.log(ratio / factor)) <= math.log(_CLOSE):
                yield WrongUnit(table, ratio, looks)


def _unknown_programs(rows: Sequence[Residual[Row]]) -> UnknownPrograms:
    """Return the rows of unknown source that the measuring programs of shipped tables may have produced."""
    shipped, num_rows = shipped_harnesses(), 0
    programs: dict[str, Harness] = {}
    for residual in rows:
        row = residual.row
        if isinstance(row, CallRow) and residual.prediction is not None and not harnesses_of(row, shipped):
            covering = {harness.name: harness for harness in shipped if harness.may_cover(row)}
            programs |= covering
            num_rows += bool(covering)
    return UnknownPrograms(num_rows, tuple(programs.values()))
