"""Errors of a set of residuals: how far predictions are off, by table, by column, and by what the fits had seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles
from typing import Any, TypeVar

from simfrontier.answers.accuracy.residual import AVERAGED, UNSEEN, Residual, Use

EVERYTHING = "all tables"

AnyResidual = TypeVar("AnyResidual", bound=Residual[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Errors (predicted / measured − 1) of residuals that count in averages, as shares.

    `mean_abs`, `median_abs` and `p90_abs`: mean, median and 90th percentile of absolute errors; `bias` and `median`:
    mean and median of errors with their sign. `log_rms`: root mean square of log(predicted / measured). `worst`: the
    residual with the largest absolute error. `covered`: the share of measurements inside their 90 % interval, `width`:
    half the width of these intervals relative to the prediction, in the median; None where no prediction has one.
    """

    count: int
    mean_abs: float
    median_abs: float
    p90_abs: float
    bias: float
    median: float
    log_rms: float
    worst: Residual[Any]
    covered: float | None
    width: float | None


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

    @property
    def lines(self) -> list[tuple[str, Errors | None]]:
        """The lines of a table of errors: of rows that no fit had seen, then apart from them fitted ones."""
        seen: tuple[Use, ...] = (*UNSEEN, "fitted")
        uses: list[tuple[str, Errors | None]] = [(use, self.by_use[use]) for use in seen if use in self.by_use]
        both = [use for use in UNSEEN if use in self.by_use]
        if self.name == EVERYTHING and len(both) > 1:
            return [(" + ".join(both), self.unseen), *uses]
        return uses or [("", None)]


def errors_of(rows: Iterable[Residual[Any]]) -> Errors | None:
    """Errors of those residuals that count in averages; None where there is none."""
    counted = [(row, row.error) for row in rows if row.is_averaged and row.error is not None]
    if not counted:
        return None
    errors = [error for _, error in counted]
    apart = list(map(abs, errors))
    bounded = [row for row, _ in counted if row.is_covered is not None]
    widths = [row.prediction.half_width for row in bounded if row.prediction is not None]
    return Errors(
        count=len(counted),
        mean_abs=fmean(apart),
        median_abs=median(apart),
        p90_abs=_p90(apart),
        bias=fmean(errors),
        median=median(errors),
        log_rms=math.sqrt(fmean(math.log1p(error) ** 2 for error in errors)),
        worst=counted[apart.index(max(apart))][0],
        covered=fmean(row.is_covered is True for row in bounded) if bounded else None,
        width=median(widths) if widths else None,
    )


def errors_by(rows: Iterable[AnyResidual], key: Callable[[AnyResidual], str]) -> dict[str, Errors]:
    """Errors by what `key` says of a residual, in the order in which its values come up."""
    several = grouped(rows, key)
    return {name: errors for name, some in several.items() if (errors := errors_of(some)) is not None}


def grouped(rows: Iterable[AnyResidual], key: Callable[[AnyResidual], str]) -> dict[str, list[AnyResidual]]:
    """Residuals by what `key` says of them, in the order in which its values come up."""
    several: dict[str, list[AnyResidual]] = {}
    for row in rows:
        several.setdefault(key(row), []).append(row)
    return several


def summary_of(name: str, rows: Sequence[Residual[Any]]) -> Summary:
    """Errors of these rows under a name."""
    by_use = {use: errors_of(row for row in rows if row.use == use) for use in AVERAGED}
    return Summary(
        name=name,
        num_rows=len(rows),
        errors=errors_of(rows),
        unseen=errors_of(row for row in rows if row.use in UNSEEN),
        by_use={use: errors for use, errors in by_use.items() if errors is not None},
        num_pathologies=sum(row.use == "pathology" for row in rows),
        num_unknown=sum(row.is_unpredicted for row in rows),
    )


def summaries_of(rows: Sequence[Residual[Any]]) -> tuple[Summary, ...]:
    """One summary per table in the order of their rows, and where there are several one of everything at the end."""
    made = [summary_of(name, several) for name, several in grouped(rows, lambda row: row.table).items()]
    return (*made, summary_of(EVERYTHING, rows)) if len(made) > 1 else tuple(made)


def _p90(values: Sequence[float]) -> float:
    """The 90th percentile, linear between the two values that it lies between."""
    return quantiles(values, n=10, method="inclusive")[-1] if len(values) > 1 else values[0]
