"""The measured tables shipped with simfrontier: their rows, their sources, and the rows known to show a fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

from simfrontier.base.errors import InputError, nearest
from simfrontier.base.io import Derived, Text, read_toml, typed
from simfrontier.inputs.measured.rows import Benchmark, CallKind, Form, Row
from simfrontier.inputs.measured.tables import READERS

INDEX: Final = Path(__file__).parent / "tables" / "index.toml"
STEPS: Final = INDEX.parent / "steps"  # scenarios of the jobs in tables of kernel classes
_EXACT: Final = ("machine", "collective", "library", "benchmark", "scope")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pathology:
    """Selection of rows that show a fault of a machine or library instead of its normal behaviour, with the evidence
    for it.

    A row is selected if it agrees with every criterion that is set: values of fields by name, the beginning of
    `source`, and inclusive bounds on the number of devices and bytes.
    """

    reason: Text
    machine: Text | None = None
    collective: CallKind | None = None
    library: Text | None = None
    benchmark: Benchmark | None = None
    scope: Text | None = None
    source: str = ""
    devices_from: int | None = None
    devices_to: int | None = None
    bytes_from: int | None = None
    bytes_to: int | None = None

    def is_of(self, row: Row) -> bool:
        """Return whether the selection contains this row."""
        exact = {name: value for name in _EXACT if (value := getattr(self, name)) is not None}
        return (
            all(getattr(row, name, None) == value for name, value in exact.items())
            and row.source.startswith(self.source)
            and _inside(getattr(row, "devices", None), self.devices_from, self.devices_to)
            and _inside(getattr(row, "num_bytes", None), self.bytes_from, self.bytes_to)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A measured table: its rows in the order of the file, where they are published (`citation`), and how they were
    measured."""

    name: Annotated[str, Derived("")]  # its key in the index
    file: Text
    form: Form
    title: Text
    citation: str
    method: str
    caveats: tuple[Text, ...] = ()
    rows: Annotated[tuple[Row, ...], Derived(())]
    pathologies: tuple[Pathology, ...] = ()

    def pathology_of(self, row: Row) -> str | None:
        """Return the reason why a row of this table shows a known fault instead of the machine's normal behaviour; None
        if it shows none."""
        return fault_of(row, self.pathologies)


@dataclass(frozen=True, slots=True, kw_only=True)
class _IndexFile:
    tables: Mapping[str, Table]


def fault_of(row: Row, faults: Sequence[Pathology]) -> str | None:
    """Return the reason why a row shows one of these faults; None if it shows none of them."""
    return next((fault.reason for fault in faults if fault.is_of(row)), None)


def load_tables() -> tuple[Table, ...]:
    """Load all shipped tables, in the order of their index. Raises InputError."""
    return tuple(_read(name, entry) for name, entry in _index().items())


def call_faults() -> tuple[Pathology, ...]:
    """Return the known faults in all shipped tables of collective times. Raises InputError."""
    return tuple(fault for table in load_tables() if table.form == "calls" for fault in table.pathologies)


def load_table(name: str) -> Table:
    """Load the shipped table with this name. Raises InputError."""
    tables = _index()
    if name not in tables:
        raise InputError(f'table "{name}" is not in {INDEX.name}, {nearest(name, tables)}')
    return _read(name, tables[name])


def _index() -> Mapping[str, Table]:
    """Return the shipped tables by name, without their rows."""
    return typed(read_toml(INDEX, "index of tables"), _IndexFile, INDEX.name).tables


def _read(name: str, entry: Table) -> Table:
    """Read the rows of a table. The rows' places name the file without its folder, so that they do not depend on where
    the file is."""
    return replace(entry, name=name, rows=tuple(READERS[entry.form](INDEX.parent / entry.file, entry.file)))


def _inside(value: int | None, low: int | None, high: int | None) -> bool:
    """Return whether a value is within inclusive bounds. A missing value is within bounds only if no bound is set."""
    if low is None and high is None:
        return True
    return value is not None and (low or 0) <= value <= (value if high is None else high)
