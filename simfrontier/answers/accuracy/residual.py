"""Measurements compared with predictions: residuals of table rows and published runs, and error statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median, quantiles
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from simfrontier.answers.step import NORMAL_90
from simfrontier.base.arrays import Floats
from simfrontier.base.errors import near, nearest

Use = Literal["fitted", "left out", "held", "pathology", "no model"]
AVERAGED: tuple[Use, ...] = ("fitted", "left out", "held")  # a known pathology is shown, never averaged
UNSEEN: tuple[Use, ...] = ("left out", "held")  # predicted by what had not seen them
ONLY_BOUNDED = "a rate of training, which is held against a bound"
EVERYTHING = "all tables"

MeasuredRow = TypeVar("MeasuredRow", covariant=True)


def factor_90(sd: float) -> float:
    """Return the factor from the median to the ends of the central 90 % interval of a log-normal distribution whose
    logarithm has standard deviation `sd`.
    """
    return math.exp(NORMAL_90 * sd)


def covariance(slopes: Floats, weights: Floats, prior_sd: Floats) -> Floats:
    """Return the covariance of fitted parameters: (JᵀWJ + P)⁻¹.

    `slopes`: J, the derivatives of the points with respect to the parameters, [points, parameters]. `weights`: diagonal
    of W, the inverse variance of each point times its weight in a robust loss, [points]. `prior_sd`: prior standard
    deviations of the parameters, with P = diag(prior_sd⁻²), [parameters].
    """
    precision = slopes.T @ (weights[:, None] * slopes) + np.diag(prior_sd**-2.0)
    return np.asarray(np.linalg.inv(precision), np.float64)


# ── one row ──


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Predicted value of one measurement, in the unit in which it was measured (table rows: seconds).

    The interval from `low` to `high` contains 90 % of measurements if the stated model error is right; both ends are
    NaN if the model states no error. `harness_s`: the part of a predicted time that is overhead of the measuring
    program rather than the collective (a copy, a host call).
    """

    value: float
    low: float
    high: float
    harness_s: float = 0.0

    @property
    def has_interval(self) -> bool:
        """Return whether the model states an error, so that the prediction has a 90 % interval."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def covers(self, measured: float) -> bool | None:
        """Return whether a measured value lies inside the interval; None where there is no interval."""
        return self.low <= measured <= self.high if self.has_interval else None


def around(value: float, sd: float, harness_s: float = 0.0) -> Prediction:
    """Return a prediction with median `value` and the central 90 % interval of a log-normal distribution whose
    logarithm has standard deviation `sd`.
    """
    factor = factor_90(sd)
    return Prediction(value=value, low=value / factor, high=value * factor, harness_s=harness_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCovered:
    """The reason why no shipped model covers a row. `reason` says what is missing, with the closest known name; if none
    is close, `allowed` lists the known names.
    """

    reason: str
    allowed: str = ""

    def __str__(self) -> str:
        return f"{self.reason}; {self.allowed}" if self.allowed else self.reason


def unknown_name(what: str, name: str, known: Iterable[str]) -> NotCovered:
    """Return the reason that a row is not covered because its `name` is not a known one; `what`: the kind of thing
    named.
    """
    names = tuple(known)
    if near(name, names) is None:
        return NotCovered(reason=what, allowed=nearest(name, names))
    return NotCovered(reason=f"{what}; {nearest(name, names)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual(Generic[MeasuredRow]):
    """A table row with its measured and its predicted value.

    `measured` is None if the row states no time (the rate of a training run), `prediction` if no model covers the row.
    `use`: "fitted" if the parameters were fitted to the row, "left out" if the prediction comes from a fit without the
    row's group (its number of devices, its machine or system), "held" if no fit has seen the row. `why`: the reason why
    the row is a pathology or has no model; `allowed`: names for which there would be a model.
    """

    table: str
    row: MeasuredRow
    measured: float | None
    prediction: Prediction | None
    use: Use
    why: str = ""
    allowed: str = ""

    @property
    def reason(self) -> str:
        """The text of `why`, followed by the allowed names."""
        return str(NotCovered(reason=self.why, allowed=self.allowed))

    @property
    def error(self) -> float | None:
        """predicted / measured − 1; None if either value is missing."""
        if self.prediction is None or self.measured is None:
            return None
        return self.prediction.value / self.measured - 1.0

    @property
    def is_covered(self) -> bool | None:
        """Return whether the measured value lies inside the predicted interval; None if there is no interval."""
        if self.prediction is None or self.measured is None:
            return None
        return self.prediction.covers(self.measured)

    @property
    def is_averaged(self) -> bool:
        """Return whether the row is included in average errors."""
        return self.error is not None and self.use in AVERAGED

    @property
    def is_unpredicted(self) -> bool:
        """Return whether the row has neither a prediction nor a bound."""
        return self.use == "no model" and self.why != ONLY_BOUNDED


AnyResidual = TypeVar("AnyResidual", bound=Residual[Any])


# ── several rows ──


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Errors (predicted / measured − 1), as fractions, over the residuals that are included in averages.

    `mean_abs`, `median_abs` and `p90_abs`: mean, median and 90th percentile of absolute errors; `bias` and `median`:
    mean and median of signed errors. `log_rms`: root mean square of log(predicted / measured). `worst`: the residual
    with the largest absolute error. `covered`: the share of measurements inside their 90 % interval; `width`: median
    half-width of these intervals relative to the prediction; both are None if no prediction has an interval.
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


def errors_of(rows: Iterable[Residual[Any]]) -> Errors | None:
    """Return the errors of the residuals that are included in averages; None if there are none."""
    counted = [(row, row.error) for row in rows if row.is_averaged and row.error is not None]
    if not counted:
        return None
    errors = [error for _, error in counted]
    apart = list(map(abs, errors))
    made = [(row.prediction, row.is_covered) for row, _ in counted if row.prediction is not None]
    bounded = [(each, covered) for each, covered in made if covered is not None]
    return Errors(
        count=len(counted),
        mean_abs=fmean(apart),
        median_abs=median(apart),
        p90_abs=quantiles(apart, n=10, method="inclusive")[-1] if len(apart) > 1 else apart[0],
        bias=fmean(errors),
        median=median(errors),
        log_rms=math.sqrt(fmean(math.log1p(error) ** 2 for error in errors)),
        worst=counted[apart.index(max(apart))][0],
        covered=fmean(covered for _, covered in bounded) if bounded else None,
        width=median((each.high - each.low) / 2.0 / each.value for each, _ in bounded) if bounded else None,
    )


def errors_by(rows: Iterable[AnyResidual], key: Callable[[AnyResidual], str]) -> dict[str, Errors]:
    """Return errors grouped by the `key` of a residual, in order of first appearance."""
    several = grouped(rows, key)
    return {name: errors for name, some in several.items() if (errors := errors_of(some)) is not None}


def grouped(rows: Iterable[AnyResidual], key: Callable[[AnyResidual], str]) -> dict[str, list[AnyResidual]]:
    """Return residuals grouped by their `key`, in order of first appearance."""
    several: dict[str, list[AnyResidual]] = {}
    for row in rows:
        several.setdefault(key(row), []).append(row)
    return several


@dataclass(frozen=True)
class Summary:
    """Errors over the rows of one table, or of all tables: over all rows included in averages, over those that no fit
    has used (`unseen`), and by `use`; and the number of rows not included. Training rates, which are compared with a
    bound, are not counted in `num_unknown`.
    """

    name: str
    rows: Sequence[Residual[Any]]

    @cached_property
    def errors(self) -> Errors | None:
        return errors_of(self.rows)

    @cached_property
    def unseen(self) -> Errors | None:
        return errors_of(row for row in self.rows if row.use in UNSEEN)

    @cached_property
    def by_use(self) -> Mapping[Use, Errors]:
        made = {use: errors_of(row for row in self.rows if row.use == use) for use in AVERAGED}
        return {use: errors for use, errors in made.items() if errors is not None}

    @property
    def num_rows(self) -> int:
        return len(self.rows)

    @property
    def num_pathologies(self) -> int:
        return sum(row.use == "pathology" for row in self.rows)

    @property
    def num_unknown(self) -> int:
        return sum(row.is_unpredicted for row in self.rows)

    @property
    def lines(self) -> list[tuple[str, Errors | None]]:
        """Lines of an error table: first the rows that no fit had seen, then separately the fitted rows."""
        seen: tuple[Use, ...] = (*UNSEEN, "fitted")
        uses: list[tuple[str, Errors | None]] = [(use, self.by_use[use]) for use in seen if use in self.by_use]
        both = [use for use in UNSEEN if use in self.by_use]
        if self.name == EVERYTHING and len(both) > 1:
            return [(" + ".join(both), self.unseen), *uses]
        return uses or [("", None)]
