"""Validations: the models held against the project's measured tables, or against files of a user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from simfrontier.accuracy import (
    ComparedRow,
    Harness,
    Validation,
    load_bounds,
    named_harnesses,
    shipped_harnesses,
    shipped_models,
    validate,
)
from simfrontier.errors import InputError
from simfrontier.measured import (
    CallRow,
    Form,
    KernelRow,
    Pathology,
    Reading,
    Row,
    Setup,
    Table,
    call_faults,
    files_in,
    has_columns,
    load_tables,
    read_of_device,
    readings,
)
from simfrontier.report import counted, said, unknown_programs, wrong_units
from simfrontier.workers import Local, Workers


def validate_shipped(cross: bool, workers: Workers | None = None) -> Validation:
    """The shipped tables, with their bounds; `workers`: who makes the fits without a number of devices (`cross`)."""
    if not cross:
        return validate(load_tables(), shipped_models(), load_bounds())
    from simfrontier.api.left_out import left_out

    return validate(load_tables(), shipped_models(), load_bounds(), left_out(workers or Workers(Local())))


def validate_files(paths: Sequence[Path], setup: Setup, harness: str | None) -> Validation:
    """Files of a user. Raises InputError for a file that cannot be read, or of which nothing can be predicted."""
    harnesses = None if harness is None else named_harnesses(harness)
    faults = call_faults()
    tables, remarks = _own_tables(files_in(paths), setup, faults)
    _refuse_idle(paths, setup)
    done = validate(tables, shipped_models(harnesses))
    for table in tables:
        _refuse_unpredicted(done.of(table.name), table.file)
    _refuse_strange(harnesses or (), [row for table in tables for row in table.rows if isinstance(row, CallRow)])
    unknown = unknown_programs(done) if harnesses is None else None
    return replace(done, notes=(*remarks, *said("validate", "notes", wrong_units(done), unknown)))


def _own_tables(
    files: Sequence[Path], setup: Setup, faults: Sequence[Pathology]
) -> tuple[list[Table], tuple[str, ...]]:
    """A user's files, those of a job's ranks as one table, and what of them is no row. Raises InputError."""
    of_device = [(file, table) for file in files if (table := _of_device(file, setup, faults)) is not None]
    known = {file for file, _ in of_device}
    read = readings([file for file in files if file not in known], setup)
    place = {file: number for number, file in enumerate(files)}
    found = [*of_device, *((reading.path, _of_calls(reading, faults)) for reading in read)]
    tables = [table for _, table in sorted(found, key=lambda each: place[each[0]])]
    if len({table.name for table in tables}) < len(tables):  # files of one name in several folders
        tables = [replace(table, name=table.file) for table in tables]
    return tables, tuple(text for reading in read for text in reading.said)


def _of_device(path: Path, setup: Setup, faults: Sequence[Pathology]) -> Table | None:
    """A file of what one device computes; None for another. Raises InputError."""
    computed = read_of_device(path)
    if computed is None:
        return None
    for option, value in asdict(setup).items():
        if value is not None:
            raise InputError(
                f"--{option}: got {value!r} beside {path}, a table of what one device computes; allowed: without"
            )
    form: Form = "kernels" if isinstance(computed[0], KernelRow) else "rates"
    return _table(path, str(path), form, computed, faults)


def _of_calls(reading: Reading, faults: Sequence[Pathology]) -> Table:
    return _table(reading.path, reading.name, "calls", reading.rows, faults)


def _table(path: Path, file: str, form: Form, rows: Sequence[Row], faults: Sequence[Pathology]) -> Table:
    """A table of a user: what a file brought along has no citation of."""
    return Table(
        name=path.name,
        file=file,
        form=form,
        title=path.name,
        citation="",
        method="",
        caveats=(),
        rows=tuple(rows),
        pathologies=tuple(faults),
    )


def _refuse_idle(paths: Sequence[Path], setup: Setup) -> None:
    """Raise InputError for options whose values the rows of the tables already have."""
    if not all(map(has_columns, paths)):
        return
    for option, value in asdict(setup).items():
        if value is not None:
            raise InputError(
                f"--{option}: got {value!r} beside {paths[0]}, a table whose rows say it (column {option}); allowed: "
                "beside output of nccl-tests or OSU"
            )


def _refuse_strange(harnesses: Sequence[Harness], rows: Sequence[CallRow]) -> None:
    """Raise InputError for a named program that cannot have measured any row."""
    for one in harnesses:
        if not any(map(one.may_cover, rows)):
            known = [each.name for each in shipped_harnesses() if any(map(each.may_cover, rows))]
            raise InputError(
                f"got {one.name!r}, which measured {', '.join(one.collectives)} by {one.library} on "
                f"{one.machine}: no row is of these; allowed: {', '.join([*known, 'none'])}",
                where="--harness",
            )


def _refuse_unpredicted(rows: Sequence[ComparedRow], name: str) -> None:
    if any(row.prediction is not None for row in rows):
        return
    [(why, number)] = Counter(row.reason for row in rows).most_common(1)
    first = next(row.row.place for row in rows if row.reason == why).first
    raise InputError(
        f"{name}: none of its {counted(len(rows), 'row')} can be predicted: {why} ({counted(number, 'row')}{first})"
    )
