"""How far predictions lie from measurements: errors of a set of rows, by table and by what the fits had seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median, quantiles

from simfrontier.accuracy.residual import AVERAGED, ONLY_BOUNDED, UNSEEN, ComparedRow, Use
from simfrontier.records import dataclass

EVERYTHING = "all tables"


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Errors (predicted / measured − 1) of rows that count in averages, as shares.

    `median` is the bias, `mean_abs` the mean absolute percentage error, `p90_abs` the 90th percentile of absolute
    errors, `worst` the row with the largest, `covered` the share of measured times inside their 90 % interval, None
    where no prediction has one.
    """

    count: int
    median: float
    mean_abs: float
    p90_abs: float
    worst: ComparedRow
    covered: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Errors of one table, or of all: of every row that counts, of those that no fit had seen (`unseen`), and of those
    of one use; and what does not count. A rate of training, which is held against a bound, is no `num_unknown`."""

    name: str
    num_rows: int
    errors: Errors | None
    unseen: Errors | None
    by_use: Mapping[Use, Errors]
    num_pathologies: int
    num_unknown: int


def errors_of(rows: Iterable[ComparedRow]) -> Errors | None:
    """Errors of those rows that count in averages; None where there is none."""
    counted = [(row, row.error) for row in rows if row.is_averaged and row.error is not None]
    if not counted:
        return None
    apart = [abs(error) for _, error in counted]
    inside = [row.is_covered for row, _ in counted if row.is_covered is not None]
    return Errors(
        count=len(counted),
        median=median(error for _, error in counted),
        mean_abs=fmean(apart),
        p90_abs=_p90(apart),
        worst=counted[apart.index(max(apart))][0],
        covered=fmean(inside) if inside else None,
    )


def summary_of(name: str, rows: Sequence[ComparedRow]) -> Summary:
    """Errors of these rows under a name."""
    by_use = {use: errors_of(row for row in rows if row.use == use) for use in AVERAGED}
    return Summary(
        name=name,
        num_rows=len(rows),
        errors=errors_of(rows),
        unseen=errors_of(row for row in rows if row.use in UNSEEN),
        by_use={use: errors for use, errors in by_use.items() if errors is not None},
        num_pathologies=sum(row.use == "pathology" for row in rows),
        num_unknown=sum(row.use == "no model" and row.why != ONLY_BOUNDED for row in rows),
    )


def summaries_of(rows: Sequence[ComparedRow]) -> tuple[Summary, ...]:
    """One summary per table in the order of their rows, and where there are several one of everything at the end."""
    tables: dict[str, list[ComparedRow]] = {}
    for row in rows:
        tables.setdefault(row.table, []).append(row)
    made = [summary_of(name, several) for name, several in tables.items()]
    return (*made, summary_of(EVERYTHING, rows)) if len(made) > 1 else tuple(made)


def _p90(values: Sequence[float]) -> float:
    """The 90th percentile, linear between the two values that it lies between."""
    return quantiles(values, n=10, method="inclusive")[-1] if len(values) > 1 else values[0]
