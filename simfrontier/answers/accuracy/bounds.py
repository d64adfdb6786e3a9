"""The bounds that tables are held to: which rows of a table, how far off on average, and whether they are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from simfrontier.answers.accuracy.errors import Errors, errors_of, grouped
from simfrontier.answers.accuracy.predictors.calls import Harness, harnesses_of, shipped_harnesses
from simfrontier.answers.accuracy.residual import AVERAGED, Residual, Use
from simfrontier.base.io import read_toml, typed
from simfrontier.inputs.measured import CallRow, Row

BOUNDS = Path(__file__).parent / "bounds.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBound:
    """Bound on the errors of the rows of a table's series: mean absolute percentage error, 90th percentile, as shares.

    `series` is for people. The series is the rows whose fields are one of those in `one_of` and at least those in
    `at_least`; fields by their names in the row's class.
    """

    table: str
    series: str
    mean_abs: float
    p90_abs: float | None = None
    uses: tuple[Use, ...] = AVERAGED
    one_of: Mapping[str, tuple[str | int, ...]] = field(default_factory=dict)
    at_least: Mapping[str, int | float] = field(default_factory=dict)

    def covers(self, residual: Residual[Row]) -> bool:
        """Return whether a row is of the series."""
        return (
            residual.table == self.table
            and residual.use in self.uses
            and all(getattr(residual.row, name) in allowed for name, allowed in self.one_of.items())
            and all(getattr(residual.row, name) >= least for name, least in self.at_least.items())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBound:
    """A bound and what was seen; `errors` is None where no row of the series counts, which misses the bound. `uses`:
    of which rows the errors are."""

    bound: ErrorBound
    errors: Errors | None
    uses: tuple[Use, ...] = ()

    @property
    def holds(self) -> bool:
        """Return whether the series is within its bound."""
        if self.errors is None or self.errors.mean_abs > self.bound.mean_abs:
            return False
        return self.bound.p90_abs is None or self.errors.p90_abs <= self.bound.p90_abs


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    bounds: tuple[ErrorBound, ...]


def load_bounds(path: Path = BOUNDS) -> tuple[ErrorBound, ...]:
    """The bounds in a file: `[[bounds]]` with the fields of Bound. Raises InputError."""
    return typed(read_toml(path, "file of bounds"), _File, str(path)).bounds


def judge(bounds: Sequence[ErrorBound], rows: Sequence[Residual[Row]]) -> tuple[JudgedBound, ...]:
    """Every bound with the errors of its rows; fitted ones say nothing where others of the series were left out."""
    return tuple(_judged(bound, [row for row in rows if row.is_averaged and bound.covers(row)]) for bound in bounds)


def _judged(bound: ErrorBound, rows: Sequence[Residual[Row]]) -> JudgedBound:
    there = {row.use for row in rows}
    uses = tuple(use for use in AVERAGED if use in there and not (use == "fitted" and "left out" in there))
    return JudgedBound(bound=bound, errors=errors_of(row for row in rows if row.use in uses), uses=uses)


# By which factor all times are off, and what they look like then; they are said to be where they come this close.
_UNITS: Final = ((1e3, "like milliseconds"), (1e6, "like microseconds"), (1e-3, "a thousand times too short"))
_CLOSE: Final = 2.5  # a program whose own time is not known may add as much


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongUnit:
    """A table whose times are, in the median, `ratio` times the predicted ones, and what they look like."""

    table: str
    ratio: float
    looks: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownPrograms:
    """Rows of unknown source to which no program's own time is added, and the programs that might have added some."""

    num_rows: int
    programs: tuple[Harness, ...]


def wrong_units(rows: Iterable[Residual[Row]]) -> Iterator[WrongUnit]:
    """The tables whose times are, in the median, a thousand times the predicted ones or the like."""
    for table, several in grouped(rows, lambda row: row.table).items():
        ratios = [1.0 / (1.0 + row.error) for row in several if row.error is not None]
        ratio = median(ratios) if ratios else 1.0
        for factor, looks in _UNITS:
            if abs(math.log(ratio / factor)) <= math.log(_CLOSE):
                yield WrongUnit(table=table, ratio=ratio, looks=looks)


def unknown_programs(rows: Iterable[Residual[Row]]) -> UnknownPrograms:
    """The rows of unknown source that programs of shipped tables may have measured."""
    shipped, num_rows = shipped_harnesses(), 0
    programs: dict[str, Harness] = {}
    for residual in rows:
        row = residual.row
        if isinstance(row, CallRow) and residual.prediction is not None and not harnesses_of(row, shipped):
            covering = [harness for harness in shipped if harness.may_cover(row)]
            programs |= {harness.name: harness for harness in covering}
            num_rows += bool(covering)
    return UnknownPrograms(num_rows=num_rows, programs=tuple(programs.values()))
