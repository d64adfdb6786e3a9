"""A validation: every row of every table held against the models, the errors, and the bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from simfrontier.accuracy.bounds import ErrorBound, JudgedBound, judge
from simfrontier.accuracy.errors import EVERYTHING, Summary, summaries_of, summary_of
from simfrontier.accuracy.predictors.rates import BoundedRate
from simfrontier.accuracy.predictors.shipped import Models
from simfrontier.accuracy.residual import ONLY_BOUNDED, ComparedRow, NotCovered, Prediction, Use
from simfrontier.records import dataclass

if TYPE_CHECKING:
    import pandas as pd

    from simfrontier.measured import Row, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Tables, their rows held against the models in the order of the tables, and the bounds that they are held to.

    `bounded`: published rates of training with the most that the models allow. `notes`: what else is to be said of the
    tables, in sentences.
    """

    tables: tuple[Table, ...]
    rows: tuple[ComparedRow, ...]
    judged_bounds: tuple[JudgedBound, ...] = ()
    bounded: tuple[BoundedRate, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """Errors per table, and of everything where there are several."""
        return summaries_of(self.rows)

    @property
    def overall(self) -> Summary:
        """Errors of everything."""
        return summary_of(EVERYTHING, self.rows)

    @property
    def holds(self) -> bool:
        """Whether every stated bound holds, and no published rate is above what the models allow."""
        return all(each.holds for each in self.judged_bounds) and all(each.holds for each in self.bounded)

    def frame(self) -> pd.DataFrame:
        """A row per measured time: seconds measured and predicted (NaN where there is none), the ends of the predicted
        interval, the error (predicted / measured − 1), and whether any fit saw the row."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "table": row.table,
                    "place": str(row.row.place),
                    "measured_s": math.nan if row.measured_s is None else row.measured_s,
                    "predicted_s": math.nan if row.prediction is None else row.prediction.predicted_s,
                    "low_s": math.nan if row.prediction is None else row.prediction.low_s,
                    "high_s": math.nan if row.prediction is None else row.prediction.high_s,
                    "error": math.nan if row.error is None else row.error,
                    "use": row.use,
                    "why": row.reason,
                }
                for row in self.rows
            ]
        )

    def of(self, table: str) -> tuple[ComparedRow, ...]:
        """The rows of one table."""
        return tuple(row for row in self.rows if row.table == table)


def validate(
    tables: Sequence[Table],
    models: Models,
    bounds: Sequence[ErrorBound] = (),
    left_out: Mapping[Row, Prediction] | None = None,
) -> Validation:
    """Hold every row of these tables.

    `left_out`: predictions, for some rows, by fits that did not see any row of their number of devices; they take the
    place of the shipped model's.
    """
    crossed = left_out or {}
    rows: list[ComparedRow] = []
    bounded: list[BoundedRate] = []
    for table in tables:
        for row in table.rows:
            made = crossed[row] if row in crossed else models.predict(row)
            if isinstance(made, BoundedRate):
                bounded.append(made)
                made = NotCovered(reason=ONLY_BOUNDED)
            use: Use = "left out" if row in crossed else "fitted" if models.fitted(row) else "held"
            rows.append(_held(table, row, made, use))
    return Validation(tables=tuple(tables), rows=tuple(rows), judged_bounds=judge(bounds, rows), bounded=tuple(bounded))


def _held(table: Table, row: Row, made: Prediction | NotCovered, use: Use) -> ComparedRow:
    """The row as it counts: a known pathology whatever is predicted, then without a model, then by what fits saw.

    Of a user's table the known pathologies are those of others' runs: a row is one only where its time shows it.
    """
    known = None if isinstance(made, NotCovered) else made
    held = ComparedRow(table=table.name, row=row, measured_s=row.seconds, prediction=known, use=use)
    pathology = table.pathology_of(row)
    if pathology is not None and (table.citation or held.is_covered is False):
        return replace(held, use="pathology", why=pathology)
    if isinstance(made, NotCovered):
        return replace(held, use="no model", why=made.reason, allowed=made.allowed)
    return held
