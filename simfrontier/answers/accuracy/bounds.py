"""The bounds that tables are held to: which rows of a table, how far off on average, and whether they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from simfrontier.answers.accuracy.errors import Errors, errors_of
from simfrontier.answers.accuracy.residual import AVERAGED, Residual, Use
from simfrontier.base.io import read_toml, typed
from simfrontier.inputs.measured import Row

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
