"""CSV files of known columns: lines of cells, and lines as rows whose types pydantic checks."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from simfrontier.base.errors import InputError, near, unknown, wrong
from simfrontier.base.io import fault_of, text_of
from simfrontier.base.limits import LARGEST, SMALLEST
from simfrontier.inputs.measured.place import NOWHERE, RowPlace
from simfrontier.inputs.measured.rows import Row

if TYPE_CHECKING:
    from pydantic import TypeAdapter

RowForm = TypeVar("RowForm", bound=Row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a table: its cells by column, its place, and what is wrong if it has not one cell for each column
    (`uneven`)."""

    place: RowPlace
    cells: Mapping[str, str]
    uneven: str = ""

    def fault(self, column: str, allowed: str) -> InputError:
        """Return the error about a cell."""
        return InputError(f"{column}: {wrong(self.cells[column], allowed)}", where=str(self.place))

    def text(self, column: str) -> str:
        """Return a text that is not empty."""
        if not self.cells[column]:
            raise self.fault(column, "some text")
        return self.cells[column]

    def integer(self, column: str, least: int = 1) -> int:
        """Return a whole number of `least` or more."""
        got = self.cells[column]
        if not got.isdecimal() or int(got) < least:
            raise self.fault(column, f"a whole number of {least} or more")
        return int(got)

    def above_zero(self, column: str, what: str) -> float:
        """Return a number above 0; `what` it is, with its unit, is for the message."""
        try:
            value = float(self.cells[column])
        except ValueError:
            raise self.fault(column, what) from None
        if not SMALLEST <= value <= LARGEST:
            raise self.fault(column, what)
        return value

    def choice(self, column: str, names: Sequence[str]) -> str:
        """Return one of some names."""
        if self.cells[column] not in names:
            raise InputError(f"{column}: {unknown(self.cells[column], names)}", where=str(self.place))
        return self.cells[column]


def read_lines(path: Path, columns: Sequence[str], called: str = "", uneven: bool = False) -> tuple[Line, ...]:
    """Read the lines of a CSV file that has at least these columns, in any order.

    A machine's file that a cell names is looked for beside the table first, then from the working folder. `called`: the
    file's name in messages, instead of its path; `uneven`: keep lines with more or fewer cells than columns, with what
    is wrong. Raises InputError.
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
    """Yield place and stripped cells of every line that is not empty."""
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


def read_rows(
    path: Path, form: type[RowForm], columns: Sequence[str], called: str = "", known: Mapping[str, Any] | None = None
) -> tuple[RowForm, ...]:
    """Read the lines of a CSV file as rows of the dataclass `form`, whose annotations say what is allowed; empty cells
    are missing ones, and `known` are values that no column has. A row that repeats another is refused: a point that is
    measured again has another value. Raises InputError."""
    rows: dict[Row, RowForm] = {}
    for line in read_lines(path, columns, called):
        row = _row(line.place, form, {**(known or {}), **{column: cell for column, cell in line.cells.items() if cell}})
        first = rows.setdefault(replace(row, place=NOWHERE), row)
        if first is not row:
            text = f"the same row as line {first.place.line}, allowed: every measurement once"
            raise InputError(text, where=str(row.place))
    return tuple(rows.values())


def _row(place: RowPlace, form: type[RowForm], cells: Mapping[str, Any]) -> RowForm:
    from pydantic import ValidationError

    try:
        rows: list[RowForm] = _adapter(cast(Any, form)).validate_python([{**cells, "place": place}])
    except ValidationError as error:
        raise fault_of(error, form, skipped=1).within(str(place)) from None
    return rows[0]


@cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    """Return the validator of a list of rows; columns that are not read are passed over."""
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(list[form], config=ConfigDict(extra="ignore", allow_inf_nan=False))
