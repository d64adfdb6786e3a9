"""Validation: every row of measured tables compared with its prediction, the errors, and the stated error bounds."""

from __future__ import annotations

import math
from collections import Counter
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
from simfrontier.base.units import counted
from simfrontier.base.workers import Workers
from simfrontier.inputs.measured import ClassRow, Row, Table, load_tables

if TYPE_CHECKING:
    import pandas as pd

BOUNDS = Path(__file__).parent / "bounds.toml"


# ── bounds ──


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBound:
    """Upper bounds on the errors of a series of table rows: mean absolute percentage error and 90th percentile, as
    fractions.

    `series`: name of the series for display. The series consists of the rows whose fields have one of the values in
    `one_of` and at least the values in `at_least`, by the names of fields in the row's class.
    """

    table: str
    series: str
    mean_abs: float
    p90_abs: float | None = None
    uses: tuple[Use, ...] = AVERAGED
    one_of: Mapping[str, tuple[str | int, ...]] = field(default_factory=dict)
    at_least: Mapping[str, int | float] = field(default_factory=dict)

    def covers(self, residual: Residual[Row]) -> bool:
        """Return whether the row of a residual belongs to the series."""
        return (
            residual.table == self.table
            and residual.use in self.uses
            and all(getattr(residual.row, name) in allowed for name, allowed in self.one_of.items())
            and all(getattr(residual.row, name) >= least for name, least in self.at_least.items())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBound:
    """An error bound with the observed errors; `errors` is None if no row of the series is included in averages, which
    counts as missing the bound. `uses`: the `use` of the rows that the errors are computed from.
    """

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
    """Load the error bounds of the shipped tables: entries `[[bounds]]` with the fields of `ErrorBound`."""
    return typed(read_toml(BOUNDS, "file of bounds"), dict[str, tuple[ErrorBound, ...]], str(BOUNDS))["bounds"]


def judge(bounds: Sequence[ErrorBound], rows: Sequence[Residual[Row]]) -> tuple[JudgedBound, ...]:
    """Return every bound with the errors of its rows; fitted rows are ignored if other rows of the series were left
    out.
    """
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
    """A table whose median time is `ratio` times the predicted one, and the unit that its times appear to have."""

    table: str
    ratio: float
    looks: str


class UnknownPrograms(NamedTuple):
    """Number of rows whose measuring program is unknown, so that no program overhead is added to their predictions, and
    the programs that may have measured them.
    """

    num_rows: int
    programs: tuple[Harness, ...]


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Tables, the residuals of their rows in the order of the tables, and the error bounds that apply to them.

    `bounded`: published training rates with their upper bounds. For a user's files: `notes`: sentences on contents that
    became no row; `wrong_units`: tables whose times appear to be in another unit; `unknown_programs`: programs whose
    overhead may be included in rows of unknown source, if the user names none.
    """

    tables: tuple[Table, ...]
    rows: tuple[Residual[Row], ...]
    judged_bounds: tuple[JudgedBound, ...] = ()
    bounded: tuple[BoundedRate, ...] = ()
    notes: tuple[str, ...] = ()
    wrong_units: tuple[WrongUnit, ...] = ()
    unknown_programs: UnknownPrograms | None = None

    def __repr__(self) -> str:
        compared = f"{counted(len(self.rows), 'measured time')} of {counted(len(self.tables), 'table')}"
        return f"Validation of {compared}; see errors, summaries, holds and frame()"

    @cached_property
    def overall(self) -> Summary:
        """Errors over all tables."""
        return Summary(EVERYTHING, self.rows)

    @cached_property
    def summaries(self) -> tuple[Summary, ...]:
        """Errors per table, in the order of the rows, and over all tables if there are several."""
        made = [Summary(name, several) for name, several in grouped(self.rows, lambda row: row.table).items()]
        return (*made, self.overall) if len(made) > 1 else tuple(made)

    @property
    def of_steps(self) -> tuple[Residual[Row], ...]:
        """Residuals of the times that classes of kernels take in whole steps."""
        return tuple(row for row in self.rows if isinstance(row.row, ClassRow))

    @property
    def holds(self) -> bool:
        """Return whether every stated error bound holds and no published training rate is above its upper bound."""
        return not self.missed and all(each.holds for each in self.bounded)

    @property
    def missed(self) -> tuple[JudgedBound, ...]:
        """The error bounds that do not hold."""
        return tuple(each for each in self.judged_bounds if not each.holds)

    @property
    def unbounded(self) -> tuple[Summary, ...]:
        """Errors of the tables that have no error bound."""
        bounded = {each.bound.table for each in self.judged_bounds}
        return tuple(each for each in self.summaries[: len(self.tables)] if each.name not in bounded)

    @property
    def errors(self) -> Errors | None:
        """Errors over the rows that no fit had seen, if there are any (`is_unseen`), else over all rows included in
        averages.
        """
        return self.overall.unseen or self.overall.errors

    @property
    def is_unseen(self) -> bool:
        """Return whether there are rows that no fit had seen."""
        return self.overall.unseen is not None

    @cached_property
    def titles(self) -> Mapping[str, str]:
        """Titles of tables by name, for display: the name itself where several tables have one title."""
        titles = Counter(table.title for table in self.tables)
        shown = {each.name: each.title if titles[each.title] == 1 else each.name for each in self.tables}
        return shown | {EVERYTHING: EVERYTHING}

    @property
    def num_tables(self) -> int:
        """Number of tables that contribute rows to `errors`."""
        uses = UNSEEN if self.is_unseen else AVERAGED
        return len({row.table for row in self.rows if row.is_averaged and row.use in uses})

    @property
    def worst(self) -> tuple[Residual[Row], ...]:
        """The residuals included in averages, the largest error first."""
        return tuple(sorted((row for row in self.rows if row.is_averaged), key=lambda row: -abs(row.error or 0.0)))

    @property
    def pathologies(self) -> Mapping[str, Sequence[Residual[Row]]]:
        """Rows that are known pathologies, by reason."""
        return grouped((row for row in self.rows if row.use == "pathology"), lambda row: row.why)

    @property
    def unpredicted(self) -> Mapping[str, Sequence[Residual[Row]]]:
        """Rows that no model covers, by reason."""
        return grouped((row for row in self.rows if row.is_unpredicted), lambda row: row.why)

    @property
    def commonest(self) -> list[tuple[str, Sequence[Residual[Row]]]]:
        """Rows that no model covers, by reason, the most common reason first."""
        return sorted(self.unpredicted.items(), key=lambda each: -len(each[1]))

    def of(self, table: str) -> tuple[Residual[Row], ...]:
        """Return the residuals of the rows of one table."""
        return tuple(row for row in self.rows if row.table == table)

    def frame(self) -> pd.DataFrame:
        """Return a table with one row per measured time: measured and predicted seconds (NaN if there is no
        prediction), the ends of the predicted interval, the error (predicted / measured − 1), and whether any fit saw
        the row.
        """
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
    """Compare every row of the tables with its prediction.

    `predict`: returns the predicted time of a row, the bound on a training rate, or the reason why there is neither.
    `fitted`: returns whether parameters were fitted to a row. `left_out`: predictions of some rows by fits that did not
    see any row with the same number of devices; they replace those of `predict`.
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
    """Compare the shipped tables with predictions and error bounds. `cross`: predict fitted rows by fits without their
    number of devices, which run on `workers`.
    """
    left_out = shipped_rows_left_out(workers) if cross else None
    return validate(load_tables(), predict_row, row_fitted, load_bounds(), left_out)


def _residual(table: Table, row: Row, made: Prediction | NotCovered, use: Use) -> Residual[Row]:
    """Return the residual of a row. A known pathology takes precedence over its prediction; a row without a model has
    none; otherwise `use` says what the fits saw.

    For a user's table the pathologies are known from measurements by others: a row counts as one only if its time shows
    it.
    """
    known = None if isinstance(made, NotCovered) else made
    residual = Residual(table=table.name, row=row, measured=row.seconds, prediction=known, use=use)
    pathology = table.pathology_of(row)
    if pathology is not None and (table.citation or residual.is_covered is False):
        return replace(residual, use="pathology", why=pathology)
    if isinstance(made, NotCovered):
        return replace(residual, use="no model", why=made.reason, allowed=made.allowed)
    return residual
