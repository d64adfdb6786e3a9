"""A CSV file of known columns, read so that every fault is one InputError that names the file and the line."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from simfrontier.errors import InputError, near, unknown, wrong
from simfrontier.io import reading
from simfrontier.limits import FILE, LARGEST, SMALLEST
from simfrontier.machine import machine_named
from simfrontier.measured.place import NOWHERE, RowPlace
from simfrontier.records import dataclass

MAX_SHOWN: Final = 40
OTHER_SIGNS: Final = {";": "semicolons", "\t": "tabs", "|": "bars"}  # that separate cells elsewhere
_WHOLE: Final = re.compile(r"[0-9]{1,18}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
# A column of times in another unit than seconds: time_us, latency (ms), microseconds ...
_OTHER_UNIT: Final = re.compile(
    r"(time|latency|duration|seconds|t|avg|mean)?[ _(\[]*([umnµ]s(ec)?|(micro|milli|nano)s(ec(ond)?s?)?)[)\]]?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row of a file: its cells by column, where it stands, and what is wrong where it has other columns than the
    file (`uneven`)."""

    place: RowPlace
    cells: Mapping[str, str]
    uneven: str = ""

    def fault(self, column: str, allowed: str) -> InputError:
        """What is to be raised about a cell."""
        return InputError(f"{column}: {wrong(self.cells[column], allowed)}", where=str(self.place))

    def text(self, column: str) -> str:
        """A text that is not empty."""
        if not self.cells[column]:
            raise self.fault(column, "some text")
        return self.cells[column]

    def machine(self) -> str:
        """The name of a machine, or the path of a file of one's own. Raises InputError where that is no machine's
        file."""
        name = self.text("machine")
        if name.endswith(".toml"):
            try:
                machine_named(name)
            except InputError as error:
                raise error.within(str(self.place), key=("machine",)) from None
        return name

    def integer(self, column: str, least: int = 1) -> int:
        """A whole number of `least` or more, of 18 digits at most."""
        got = self.cells[column]
        if not _WHOLE.fullmatch(got) or int(got) < least:
            raise self.fault(column, f"a whole number of {least} or more")
        return int(got)

    def above_zero(self, column: str, what: str) -> float:
        """A number above 0, from 1e-30 to 1e30, so that what follows of it stays finite; `what` it is, with its unit,
        is for the message."""
        got = self.cells[column]
        value = float(got) if _NUMBER.fullmatch(got) else math.nan
        if not 0.0 < value < math.inf:
            raise self.fault(column, what)
        if not SMALLEST <= value <= LARGEST:
            raise self.fault(column, f"{what}, {SMALLEST:g} to {LARGEST:g}")
        return value

    def choice(self, column: str, names: Sequence[str]) -> str:
        """One of some names."""
        got = self.text(column)
        if got not in names:
            raise InputError(f"{column}: {unknown(got, names)}", where=str(self.place))
        return got

    def optional(self, column: str) -> int | None:
        """A whole number of 1 or more; None where the column is missing or the cell empty."""
        return self.integer(column) if self.cells.get(column) else None


def read_text(path: Path, what: str) -> str:
    """The text of a file in UTF-8, with or without a byte order mark. Raises InputError."""
    try:
        with reading(path, what):
            text = FILE.read(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"not UTF-8: byte {error.start} is {error.object[error.start]:#04x}", where=str(path)
        ) from None
    except ValueError as error:  # of its size
        raise InputError(f"cannot read this {what}: {error}", where=str(path)) from None
    return text


def read_lines(path: Path, columns: Sequence[str], called: str = "", uneven: bool = False) -> tuple[Line, ...]:
    """The rows of a CSV file that has these columns in any order; others are kept too, empty lines left out.

    A machine's file that a row names is looked for beside the table first, then from the working folder. `called`: what
    messages call the file instead of its path; `uneven`: whether rows of more or fewer cells are kept, with what is
    wrong. Raises InputError.
    """
    name = called or str(path)
    text = read_text(path, "table")
    rows = _cells(name, text)
    where, header = next(rows, (NOWHERE, []))
    if not header:
        raise InputError(f"the file is empty, allowed: a line of columns ({', '.join(columns)}), then rows", where=name)
    _check_header(where, header, columns)
    lines = tuple(_line(place, cells, header, uneven, path.parent) for place, cells in rows)
    if not lines:
        raise InputError("no rows below the line of columns, allowed: two or more", where=name)
    return lines


def _cells(name: str, text: str) -> Iterator[tuple[RowPlace, list[str]]]:
    """Place and stripped cells of every line that is not empty."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        place = RowPlace(name, reader.line_num + 1)
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"not CSV: {error}", where=str(place)) from None
        cells = [cell.strip() for cell in row]
        if cells and cells[0].startswith("#"):
            raise InputError("a comment, allowed: the line of columns and rows of values", where=str(place))
        if any(cells):
            yield place, cells


def _check_header(place: RowPlace, header: Sequence[str], columns: Sequence[str]) -> None:
    twice = next((column for number, column in enumerate(header) if column in header[:number]), None)
    if twice is not None:
        raise InputError(f'column "{twice}" stands twice', where=str(place))
    if "time_s" in columns:
        other = next((column for column in header if _OTHER_UNIT.fullmatch(column.lower())), None)
        if other is not None:
            raise InputError(f'column "{other}": times are expected in seconds, in a column "time_s"', where=str(place))
    missing = [column for column in columns if column not in header]
    if missing:
        raise InputError(f"missing columns: {', '.join(missing)}; {_meant(missing, header, columns)}", where=str(place))


def _meant(missing: Sequence[str], header: Sequence[str], columns: Sequence[str]) -> str:
    """What may have been meant by a missing column, or else what is there and what is allowed."""
    got = ", ".join(header)
    if len(header) == 1 and (other := next((sign for sign in OTHER_SIGNS if sign in got), None)):
        return f"the cells are separated by {OTHER_SIGNS[other]}, allowed: commas"
    others = {column.lower(): column for column in header if column not in columns}
    for column in missing:
        close = near(column, others)
        if close is not None:
            return f'got "{others[close]}", did you mean "{column}"?'
    return f"got: {got if len(got) <= 3 * MAX_SHOWN else got[: 3 * MAX_SHOWN] + '...'}; allowed: {', '.join(columns)}"


def _line(place: RowPlace, cells: Sequence[str], header: Sequence[str], uneven: bool, folder: Path) -> Line:
    fault = "" if len(cells) == len(header) else f"{len(cells)} values, allowed: {len(header)}, one for each column"
    if fault and not uneven:
        raise InputError(fault, where=str(place))
    by_column = dict.fromkeys(header, "") | dict(zip(header, cells, strict=False))
    machine = by_column.get("machine", "")
    if machine.endswith(".toml") and (folder / machine).is_file():
        by_column["machine"] = str(folder / machine)
    return Line(place=place, cells=by_column, uneven=fault)
