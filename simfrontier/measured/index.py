"""The measured tables that simfrontier brings along: their rows, where they come from, and which rows are faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simfrontier.errors import InputError, nearest
from simfrontier.io import read_toml, typed
from simfrontier.measured.csv_calls import read_calls
from simfrontier.measured.csv_copies import read_copies
from simfrontier.measured.csv_kernels import read_kernels
from simfrontier.measured.csv_rates import read_rates
from simfrontier.measured.rows import CallRow, CopyRow, Form, KernelRow, RateRow
from simfrontier.records import dataclass

if TYPE_CHECKING:
    from simfrontier.measured.schema import IndexFile, TableFile

INDEX: Final = Path(__file__).parent / "tables" / "index.toml"
Row = CallRow | CopyRow | RateRow | KernelRow
_READERS: Final[dict[Form, Callable[[Path, str], Sequence[Row]]]] = {
    "calls": read_calls,
    "copies": read_copies,
    "rates": read_rates,
    "kernels": read_kernels,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pathology:
    """Which rows show a fault of a machine or a library and not its law, and why that is known.

    A row is meant if it agrees with every selection that is given. `exact` are names of a row's fields and what they
    are; `source` is how its source begins; bytes and devices are bounds, both included.
    """

    reason: str
    exact: tuple[tuple[str, str], ...] = ()
    source: str = ""
    num_devices: tuple[int | None, int | None] = (None, None)
    num_bytes: tuple[int | None, int | None] = (None, None)

    def is_of(self, row: Row) -> bool:
        """Whether the row is one of those meant."""
        return (
            all(getattr(row, name, None) == value for name, value in self.exact)
            and row.source.startswith(self.source)
            and _inside(getattr(row, "devices", None), self.num_devices)
            and _inside(getattr(row, "num_bytes", None), self.num_bytes)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A measured table: its rows in the file's order, where they are published (`citation`), how they were measured."""

    name: str
    file: str
    form: Form
    title: str
    citation: str
    method: str
    caveats: tuple[str, ...]
    rows: tuple[Row, ...]
    pathologies: tuple[Pathology, ...]

    def pathology_of(self, row: Row) -> str | None:
        """Why a row of this table is a known fault and not the law of its machine; None where it is not."""
        return fault_of(row, self.pathologies)


def fault_of(row: Row, faults: Sequence[Pathology]) -> str | None:
    """Why a row is one of these faults; None where it is none."""
    return next((fault.reason for fault in faults if fault.is_of(row)), None)


def load_tables(path: Path = INDEX) -> tuple[Table, ...]:
    """All tables, in the order of the index; files stand beside it. Raises InputError."""
    return tuple(_table(path.parent, name, entry) for name, entry in _index(path).tables.items())


def call_faults() -> tuple[Pathology, ...]:
    """The known faults that rows of calls may show, those of all shipped tables. Raises InputError."""
    return tuple(fault for table in load_tables() if table.form == "calls" for fault in table.pathologies)


def load_table(name: str, path: Path = INDEX) -> Table:
    """The table of that name. Raises InputError."""
    tables = _index(path).tables
    if name not in tables:
        raise InputError(f'table "{name}" is not in {path.name}, {nearest(name, tables)}')
    return _table(path.parent, name, tables[name])


def _index(path: Path) -> IndexFile:
    from simfrontier.measured.schema import IndexFile  # pydantic takes long to import, and `--help` needs no tables

    return typed(read_toml(path, "index of tables"), IndexFile, path.name)


def _table(folder: Path, name: str, entry: TableFile) -> Table:
    """The table with its rows; places call a file by its name, so that they are alike wherever simfrontier is."""
    table = Table(
        name=name,
        file=entry.file,
        form=entry.form,
        title=entry.title,
        citation=entry.citation,
        method=entry.method,
        caveats=tuple(entry.caveats),
        rows=tuple(_READERS[entry.form](folder / entry.file, entry.file)),
        pathologies=tuple(
            Pathology(
                reason=one.reason,
                exact=tuple(
                    (key, value)
                    for key in ("machine", "collective", "library", "benchmark", "scope")
                    if (value := getattr(one, key)) is not None
                ),
                source=one.source or "",
                num_devices=(one.devices_from, one.devices_to),
                num_bytes=(one.bytes_from, one.bytes_to),
            )
            for one in entry.pathologies
        ),
    )
    for number, pathology in enumerate(table.pathologies):
        if not any(map(pathology.is_of, table.rows)):
            raise InputError(f"index.toml: tables.{name}.pathologies[{number}]: no row of {entry.file} is meant by it")
    return table


def _inside(value: int | None, bounds: tuple[int | None, int | None]) -> bool:
    """Whether a value is within bounds; one that a row does not have is only within no bounds."""
    low, high = bounds
    if low is None and high is None:
        return True
    return value is not None and (low or 0) <= value <= (value if high is None else high)
