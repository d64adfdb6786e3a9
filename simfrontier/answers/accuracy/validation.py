"""Validation: every row of measured tables compared with the models, the errors, and the bounds on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from simfrontier.answers.accuracy.fit_rows import shipped_rows_left_out
from simfrontier.answers.accuracy.predictors import predict_row, row_fitted
from simfrontier.answers.accuracy.predictors.calls import Harness
from simfrontier.answers.accuracy.predictors.rates import BoundedRate
from simfrontier.answers.accuracy.residual import (
    AVERAGED,
    EVERYTHING,
    ONLY_BOUNDED,
    UNSEEN,
    Errors,
    NotCovered,
    Prediction,
    Residual,
    Summary,
    Use,
    errors_of,
    grouped,
)
from simfrontier.base.io import read_toml, typed
from simfrontier.base.workers import Workers
from simfrontier.inputs.measured import Row, Table, load_tables

if TYPE_CHECKING:
    import pandas as pd

BOUNDS = Path(__file__).parent / "bounds.toml"


# ── bounds ──


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


def load_bounds() -> tuple[ErrorBound, ...]:
    """Load the bounds on shipped tables: `[[bounds]]` with the fields of `ErrorBound`."""
    return typed(read_toml(BOUNDS, "file of bounds"), dict[str, tuple[ErrorBound, ...]], str(BOUNDS))["bounds"]


def judge(bounds: Sequence[ErrorBound], rows: Sequence[Residual[Row]]) -> tuple[JudgedBound, ...]:
    """Return every bound with the errors of its rows; fitted ones say nothing where others of the series were left
    out."""
    out = []
    for bound in bounds:
        counted = [row for row in rows if row.is_averaged and bound.covers(row)]
        there = {row.use for row in counted}
        uses = tuple(use for use in AVERAGED if use in there and not (use == "fitted" and "left out" in there))
        errors = errors_of(row for row in counted if row.use in uses)
        out.append(JudgedBound(bound=bound, errors=errors, uses=uses))
    return tuple(out)


# ── all rows ──


class WrongUnit(NamedTuple):
    """A table whose times are, in the median, `ratio` times the predicted ones, and what they look like."""

    table: str
    ratio: float
    looks: str


class UnknownPrograms(NamedTuple):
    """Rows of unknown source to which no program's own time is added, and the programs that might have added some."""

    num_rows: int
    programs: tuple[Harness, ...]


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Tables, the residuals of their rows in the order of the tables, and the bounds that they are held to.

    `bounded`: published rates of training with the most that the models allow. Of files of a user, `notes`: what of
    them is no row, in sentences; `wrong_units`: tables whose times look like another unit's; `unknown_programs`: those
    whose own time may be in rows of unknown source, where the user names none.
    """

    tables: tuple[Table, ...]
    rows: tuple[Residual[Row], ...]
    judged_bounds: tuple[JudgedBound, ...] = ()
    bounded: tuple[BoundedRate, ...] = ()
    notes: tuple[str, ...] = ()
    wrong_units: tuple[WrongUnit, ...] = ()
    unknown_programs: UnknownPrograms | None = None

    @cached_property
    def overall(self) -> Summary:
        """Errors of everything."""
        return Summary(EVERYTHING, self.rows)

    @cached_property
    def summaries(self) -> tuple[Summary, ...]:
        """Errors per table in the order of their rows, and of everything where there are several."""
        made = [Summary(name, several) for name, several in grouped(self.rows, lambda row: row.table).items()]
        return (*made, self.overall) if len(made) > 1 else tuple(made)

    @property
    def holds(self) -> bool:
        """Return whether every stated bound holds, and no published rate is above what the models allow."""
        return not self.missed and all(each.holds for each in self.bounded)

    @property
    def missed(self) -> tuple[JudgedBound, ...]:
        """The bounds that do not hold."""
        return tuple(each for each in self.judged_bounds if not each.holds)

    @property
    def unbounded(self) -> tuple[Summary, ...]:
        """The tables without a bound."""
        bounded = {each.bound.table for each in self.judged_bounds}
        return tuple(each for each in self.summaries[: len(self.tables)] if each.name not in bounded)

    @property
    def errors(self) -> Errors | None:
        """Errors of the rows that no fit had seen, if there are any (`is_unseen`), else of all that count."""
        return self.overall.unseen or self.overall.errors

    @property
    def is_unseen(self) -> bool:
        """Return whether there are rows that no fit had seen."""
        return self.overall.unseen is not None

    @property
    def num_tables(self) -> int:
        """Tables of the rows that `errors` are of."""
        uses = UNSEEN if self.is_unseen else AVERAGED
        return len({row.table for row in self.rows if row.is_averaged and row.use in uses})

    @property
    def worst(self) -> tuple[Residual[Row], ...]:
        """The rows that count in averages, the farthest off first."""
        return tuple(sorted((row for row in self.rows if row.is_averaged), key=lambda row: -abs(row.error or 0.0)))

    @property
    def pathologies(self) -> Mapping[str, Sequence[Residual[Row]]]:
        """Known pathologies, by reason."""
        return grouped((row for row in self.rows if row.use == "pathology"), lambda row: row.why)

    @property
    def unpredicted(self) -> Mapping[str, Sequence[Residual[Row]]]:
        """Rows that no model covers, by reason."""
        return grouped((row for row in self.rows if row.is_unpredicted), lambda row: row.why)

    @property
    def commonest(self) -> list[tuple[str, Sequence[Residual[Row]]]]:
        """Rows that no model covers, the commonest reason first."""
        return sorted(self.unpredicted.items(), key=lambda each: -len(each[1]))

    def of(self, table: str) -> tuple[Residual[Row], ...]:
        """Return the rows of one table."""
        return tuple(row for row in self.rows if row.table == table)

    def frame(self) -> pd.DataFrame:
        """Return a row per measured time: seconds measured and predicted (NaN where there is none), the ends of the
        predicted interval, the error (predicted / measured − 1), and whether any fit saw the row."""
        import pandas as pd

        none = Prediction(value=math.nan, low=math.nan, high=math.nan)
        return pd.DataFrame(
            [
                {
                    "table": row.table,
                    "place": str(row.row.place),
                    "measured_s": math.nan if row.measured is None else row.measured,
                    "predicted_s": (row.prediction or none).value,
                    "low_s": (row.prediction or none).low,
                    "high_s": (row.prediction or none).high,
                    "error": math.nan if row.error is None else row.error,
                    "use": row.use,
                    "why": row.reason,
                }
                for row in self.rows
            ]
        )


def validate(
    tables: Sequence[Table],
    predict: Callable[[Row], Prediction | BoundedRate | NotCovered],
    fitted: Callable[[Row], bool],
    bounds: Sequence[ErrorBound] = (),
    left_out: Mapping[Row, Prediction] | None = None,
) -> Validation:
    """Compare every row of these tables with its prediction.

    `predict`: the time of a row, the bound on a rate of training, or why there is neither. `fitted`: whether parameters
    were fitted to a row. `left_out`: predictions, for some rows, by fits that did not see any row of their number of
    devices; they take the place of `predict`'s.
    """
    crossed = left_out or {}
    rows: list[Residual[Row]] = []
    bounded: list[BoundedRate] = []
    for table in tables:
        for row in table.rows:
            made = crossed[row] if row in crossed else predict(row)
            if isinstance(made, BoundedRate):
                bounded.append(made)
                made = NotCovered(reason=ONLY_BOUNDED)
            use: Use = "left out" if row in crossed else "fitted" if fitted(row) else "held"
            rows.append(_residual(table, row, made, use))
    return Validation(tables=tuple(tables), rows=tuple(rows), judged_bounds=judge(bounds, rows), bounded=tuple(bounded))


def validate_shipped(cross: bool, workers: Workers | None = None) -> Validation:
    """Compare the shipped tables, with their bounds; `cross`: fitted rows by fits without their number of devices,
    which `workers` make."""
    left_out = shipped_rows_left_out(workers) if cross else None
    return validate(load_tables(), predict_row, row_fitted, load_bounds(), left_out)


def _residual(table: Table, row: Row, made: Prediction | NotCovered, use: Use) -> Residual[Row]:
    """Return the row as it counts: a known pathology whatever is predicted, then without a model, then by what fits
    saw.

    Of a user's table the known pathologies are those of others' runs: a row is one only where its time shows it.
    """
    known = None if isinstance(made, NotCovered) else made
    residual = Residual(table=table.name, row=row, measured=row.seconds, prediction=known, use=use)
    pathology = table.pathology_of(row)
    if pathology is not None and (table.citation or residual.is_covered is False):
        return replace(residual, use="pathology", why=pathology)
    if isinstance(made, NotCovered):
        return replace(residual, use="no model", why=made.reason, allowed=made.allowed)
    return residual
