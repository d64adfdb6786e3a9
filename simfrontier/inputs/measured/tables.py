"""Reading of CSV tables with known columns: lines as cells, lines as rows whose types pydantic checks, and a reader for
each type of rows."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from simfrontier.base.errors import InputError, near, wrong
from simfrontier.base.io import fault_of, text_of
from simfrontier.base.limits import LARGEST, SMALLEST
from simfrontier.inputs.measured.reading import FileStart, Format, Reading
from simfrontier.inputs.measured.rows import (
    CallRow,
    ClassRow,
    CopyRow,
    Form,
    KernelRow,
    Quantity,
    RateRow,
    Row,
    RowPlace,
)

if TYPE_CHECKING:
    from pydantic import TypeAdapter

RowForm = TypeVar("RowForm")

_PUBLISHED: Final = ("machine", "quantity", "value", "status", "source")
CALL_COLUMNS: Final = ("machine", "collective", "library", "devices", "bytes", "time_s", "source")
PRODUCT_COLUMNS: Final = (*_PUBLISHED, "statistic", "dtype", "m", "n", "k")
TRAINING_COLUMNS: Final = (*_PUBLISHED, "model", "plan", "devices")
KERNEL_COLUMNS: Final = (
    *("machine", "kernel", "dtype", "shape", "bytes", "flops"),
    *("statistic", "time_s", "status", "source"),
)
COPY_COLUMNS: Final = (
    *("machine", "benchmark", "scope", "path_class", "gcd_pair", "bytes"),
    *("library", "value", "unit", "source"),
)
CLASS_COLUMNS: Final = ("machine", "step", "kernels", "time_s", "low_s", "high_s", "runs", "source")
PRODUCT_QUANTITIES: Final[tuple[Quantity, ...]] = ("seconds", "flops_per_s")
SLOW_S: Final = 10.0  # no collective of a cluster takes so long and moves so few bytes per second
SLOW_BYTES_PER_S: Final = 1e6
LONGEST_NUMBER: Final = 18  # digits of a whole number in a cell


# ── lines ──


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a table: its cells by column, its place, and, if the number of cells differs from that of the
    columns, a description of this fault (`uneven`)."""

    place: RowPlace
    cells: Mapping[str, str]
    uneven: str = ""

    def fault(self, column: str, allowed: str) -> InputError:
        """Return the error for a wrong value in the cell of `column`."""
        return InputError(f"{column}: {wrong(self.cells[column], allowed)}", where=str(self.place))

    def text(self, column: str) -> str:
        """Return the text of a cell, which must not be empty."""
        if not self.cells[column]:
            raise self.fault(column, "some text")
        return self.cells[column]

    def integer(self, column: str, least: int = 1) -> int:
        """Return the whole number in a cell, which must be at least `least`."""
        got = self.cells[column]
        if not got.isdecimal() or len(got) > LONGEST_NUMBER or int(got) < least:
            raise self.fault(column, f"a whole number of {least} or more")
        return int(got)

    def above_zero(self, column: str, what: str) -> float:
        """Return the number in a cell, which must be above 0; `what` names the quantity and its unit in the error
        message."""
        try:
            value = float(self.cells[column])
        except ValueError:
            raise self.fault(column, what) from None
        if not SMALLEST <= value <= LARGEST:
            raise self.fault(column, what)
        return value


def read_lines(path: Path, columns: Sequence[str], called: str = "", uneven: bool = False) -> tuple[Line, ...]:
    """Read the lines of a CSV file that has at least these columns, in any order.

    If a cell names a machine's file, the file is searched in the folder of the table first, then in the working
    directory. `called` is the name of the table in messages (default: its path). With `uneven`, lines with more or
    fewer cells than columns are kept, with a description of the fault. Raises InputError.
    """
    name = called or str(path)
    rows = _cells(name, text_of(path, "table", "CSV table").removeprefix("\ufeff"))
    place, header = next(rows, (RowPlace(name), []))
    _refuse_header(place, header, columns)
    lines = tuple(_line(each, cells, header, uneven, path.parent) for each, cells in rows)
    if not lines:
        raise InputError("no rows below the line of columns, allowed: two or more", where=name)
    return lines


def _cells(name: str, text: str) -> Iterator[tuple[RowPlace, list[str]]]:
    """Yield the place and the stripped cells of every line that is not empty."""
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    before = 0
    try:
        for row in reader:
            place, before = RowPlace(name, before + 1), reader.line_num
            if any(cells := [cell.strip() for cell in row]):
                yield place, cells
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", where=f"{name} line {before + 1}") from None


def _refuse_header(place: RowPlace, header: Sequence[str], columns: Sequence[str]) -> None:
    twice = next((column for number, column in enumerate(header) if column in header[:number]), None)
    if twice is not None:
        raise InputError(f'column "{twice}" stands twice', where=str(place))
    missing = [column for column in columns if column not in header]
    if missing:
        others = [column for column in header if column not in columns]
        near_ones = (f'got "{got}", did you mean "{column}"?' for column in missing if (got := near(column, others)))
        text = next(near_ones, f"got: {', '.join(header) or 'nothing'}; allowed: {', '.join(columns)}")
        raise InputError(f"missing columns: {', '.join(missing)}; {text}", where=str(place))


def _line(place: RowPlace, cells: Sequence[str], header: Sequence[str], uneven: bool, folder: Path) -> Line:
    fault = "" if len(cells) == len(header) else f"{len(cells)} values, allowed: {len(header)}, one for each column"
    if fault and not uneven:
        raise InputError(fault, where=str(place))
    by_column = dict.fromkeys(header, "") | dict(zip(header, cells, strict=False))
    machine = by_column.get("machine", "")
    if machine.endswith(".toml") and (folder / machine).is_file():
        by_column["machine"] = str(folder / machine)
    return Line(place=place, cells=by_column, uneven=fault)


# ── rows ──


def read_rows(
    path: Path, form: type[RowForm], columns: Sequence[str], called: str = "", known: Mapping[str, Any] | None = None
) -> tuple[RowForm, ...]:
    """Read the lines of a CSV file as rows of the dataclass `form`, which has a field `place` and whose annotations
    define the allowed values. Empty cells are missing values; `known` gives the values of fields that have no column.

    A row equal to an earlier one is refused: a repeated measurement would have a different value. Raises InputError.
    """
    rows: dict[Any, Any] = {}
    for line in read_lines(path, columns, called):
        row = _row(line.place, form, {**(known or {}), **{column: cell for column, cell in line.cells.items() if cell}})
        first = rows.setdefault(replace(row, place=RowPlace("")), row)
        if first is not row:
            text = f"the same row as line {first.place.line}, allowed: every measurement once"
            raise InputError(text, where=str(row.place))
    return tuple(rows.values())


def _row(place: RowPlace, form: Any, cells: Mapping[str, Any]) -> Any:
    from pydantic import ValidationError

    try:
        (row,) = _adapter(form).validate_python([{**cells, "place": place}])
    except ValidationError as error:
        raise fault_of(error, form, skipped=1).within(str(place)) from None
    return row


@cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    """Return the pydantic validator for a list of rows of the type `form`; columns without a field are ignored."""
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(list[form], config=ConfigDict(extra="ignore", allow_inf_nan=False))


def columns_of(path: Path) -> set[str]:
    """Return the cells of a file's first line, read as a CSV table; empty if the path is not a file. Raises
    InputError."""
    return FileStart(path).columns if path.is_file() else set()


def read_calls(path: Path, called: str = "") -> tuple[CallRow, ...]:
    """Read a table of collective times. The columns `nodes`, `packages`, `groups` (of devices: 0-2 1-3) and `read_off`
    are optional, and the source of a row without a source is the file. Raises InputError."""
    rows = read_rows(path, CallRow, CALL_COLUMNS, called, {"source": called or str(path)})
    for row in rows:
        if row.groups and len(row.groups[0]) != row.devices:
            raise InputError(f"{row.place}: devices: got {row.devices}, allowed: as many as each group has")
        if row.seconds > SLOW_S and row.num_bytes / row.seconds < SLOW_BYTES_PER_S:
            took = f"{row.num_bytes} bytes among {row.devices} took {row.seconds:g} s"
            raise InputError(f"{row.place}: {took}: looks like microseconds, allowed: seconds in every row")
    return rows


def read_of_device(path: Path) -> Sequence[RateRow | KernelRow] | None:
    """Read a table of matrix products or of kernels on one device; None if the table has other columns. Raises
    InputError."""
    columns = columns_of(path)
    if columns >= {"m", "n", "k"}:
        return read_rates(path)
    return read_kernels(path) if columns >= {"kernel", "shape"} else None


def read_rates(path: Path, called: str = "") -> tuple[RateRow, ...]:
    """Read a table of rates: of training runs if the table has a column `model`, else of matrix products. Cells of m,
    n, k and devices are empty if these are not known. Raises InputError."""
    if "model" in columns_of(path):
        rows = read_rows(path, RateRow, TRAINING_COLUMNS, called, {"what": "training", "statistic": "published"})
        wrong_row = next((row for row in rows if row.quantity == "seconds"), None)
        allowed = "a rate or a share of a training run"
    else:
        rows = read_rows(path, RateRow, PRODUCT_COLUMNS, called, {"what": "matmul", "devices": 1})
        wrong_row = next((row for row in rows if row.quantity not in PRODUCT_QUANTITIES), None)
        allowed = " or ".join(PRODUCT_QUANTITIES)
    if wrong_row is not None:
        raise InputError(f"quantity: {wrong(wrong_row.quantity, allowed)}", where=str(wrong_row.place))
    return rows


def read_kernels(path: Path, called: str = "") -> tuple[KernelRow, ...]:
    """Read a table of times of memory-bound kernels, whose `flops` are empty, and of fused attention. Raises
    InputError."""
    rows = read_rows(path, KernelRow, KERNEL_COLUMNS, called)
    for row in rows:
        if (row.kernel == "attention") != (row.flops is not None):
            allowed = "a number for attention, and nothing for other kernels"
            raise InputError(f"flops: {wrong(row.flops, allowed)}", where=str(row.place))
    return rows


def read_copies(path: Path, called: str = "") -> tuple[CopyRow, ...]:
    """Read a table of copies, with values as point-to-point benchmarks print them; `gcd_pair` may be empty. Raises
    InputError."""
    rows = read_rows(path, CopyRow, COPY_COLUMNS, called)
    for row in rows:
        if (row.benchmark == "osu_latency") != (row.unit == "us"):
            allowed = "us of osu_latency, GB/s or MB/s of others"
            raise InputError(f"unit: {wrong(row.unit, allowed)}", where=str(row.place))
    return rows


def read_classes(path: Path, called: str = "") -> tuple[ClassRow, ...]:
    """Read a table of steps by class of kernels; the column `read_off` is optional. Raises InputError."""
    return read_rows(path, ClassRow, CLASS_COLUMNS, called)


READERS: Final[Mapping[Form, Callable[[Path, str], Sequence[Row]]]] = {
    "calls": read_calls,
    "copies": read_copies,
    "rates": read_rates,
    "kernels": read_kernels,
    "classes": read_classes,
}
FORMAT: Final = Format(
    name="table",
    title=f"a CSV table ({', '.join(CALL_COLUMNS)})",
    recognises=lambda start: not start.is_json and (start.path.suffix == ".csv" or len(start.columns) > 1),
    read=lambda files, _: Reading(files=tuple(files), rows=read_calls(files[0])),
)
