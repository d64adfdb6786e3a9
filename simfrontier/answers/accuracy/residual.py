"""Measurements compared with predictions: residuals of rows and of published runs, and errors of several of them."""

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
    """Return the factor from the median to the ends of the central 90 % interval of a log-normal; `sd` is of the
    logarithm."""
    return math.exp(NORMAL_90 * sd)


def covariance(slopes: Floats, weights: Floats, prior_sd: Floats) -> Floats:
    """Return the covariance of fitted parameters: (JᵀWJ + P)⁻¹.

    `slopes`: J, how the points move with the parameters, [points, parameters]. `weights`: diagonal of W, the inverse
    variance of each point times the weight that a robust loss gives it, [points]. `prior_sd`: P is diag(prior_sd⁻²),
    what is known of the parameters without the points, [parameters].
    """
    precision = slopes.T @ (weights[:, None] * slopes) + np.diag(prior_sd**-2.0)
    return np.asarray(np.linalg.inv(precision), np.float64)


# ── one row ──


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Predicted value of one measurement, in the unit in which it was measured (rows of tables: seconds).

    `low` to `high` hold 90 % of measurements, if the model's residuals are what it says they are; both are NaN where it
    says nothing of them. `harness_s` is the part of a predicted time that belongs to the measuring program and not to
    the collective (a copy, a call of the host).
    """

    value: float
    low: float
    high: float
    harness_s: float = 0.0

    @property
    def has_interval(self) -> bool:
        """Return whether the model says how far off it may be."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def covers(self, measured: float) -> bool | None:
        """Return whether a measured value lies inside the interval; None where there is no interval."""
        return self.low <= measured <= self.high if self.has_interval else None


def around(value: float, sd: float, harness_s: float = 0.0) -> Prediction:
    """Return a value and the central 90 % of a normal of its natural logarithm, whose standard deviation is `sd`."""
    factor = factor_90(sd)
    return Prediction(value=value, low=value / factor, high=value * factor, harness_s=harness_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCovered:
    """No shipped model covers a row; `reason` says what is missing, with the nearest name that there is, or `allowed`
    lists the names where none is near."""

    reason: str
    allowed: str = ""

    def __str__(self) -> str:
        return f"{self.reason}; {self.allowed}" if self.allowed else self.reason


def unknown_name(what: str, name: str, known: Iterable[str]) -> NotCovered:
    """Return why a row is not covered whose `name` is none of those known; `what` says of what it is one."""
    names = tuple(known)
    if near(name, names) is None:
        return NotCovered(reason=what, allowed=nearest(name, names))
    return NotCovered(reason=f"{what}; {nearest(name, names)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual(Generic[MeasuredRow]):
    """A row of a table, what was measured, and what is predicted for it.

    `measured` is None where the row tells no time (the rate of a training run), `prediction` where no model covers the
    row. `use`: "fitted" where the parameters were fitted to the row, "left out" where the prediction comes from a fit
    that left the row's group out (its number of devices, its machine or system), "held" where no fit saw it. `why` says
    what is wrong with a pathology, or why there is no model, and `allowed` lists the names of which one would have a
    model.
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
        """`why` with what is allowed."""
        return str(NotCovered(reason=self.why, allowed=self.allowed))

    @property
    def error(self) -> float | None:
        """predicted / measured − 1; None where either is lacking."""
        if self.prediction is None or self.measured is None:
            return None
        return self.prediction.value / self.measured - 1.0

    @property
    def is_covered(self) -> bool | None:
        """Return whether what was measured lies inside the predicted interval; None where there is no interval."""
        if self.prediction is None or self.measured is None:
            return None
        return self.prediction.covers(self.measured)

    @property
    def is_averaged(self) -> bool:
        """Return whether the row counts in averages."""
        return self.error is not None and self.use in AVERAGED

    @property
    def is_unpredicted(self) -> bool:
        """Return whether there is neither a prediction of the row nor a bound."""
        return self.use == "no model" and self.why != ONLY_BOUNDED


AnyResidual = TypeVar("AnyResidual", bound=Residual[Any])


# ── several rows ──


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


def errors_of(rows: Iterable[Residual[Any]]) -> Errors | None:
    """Return errors of those residuals that count in averages; None where there is none."""
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
    """Return errors by what `key` says of a residual, in the order in which its values come up."""
    several = grouped(rows, key)
    return {name: errors for name, some in several.items() if (errors := errors_of(some)) is not None}


def grouped(rows: Iterable[AnyResidual], key: Callable[[AnyResidual], str]) -> dict[str, list[AnyResidual]]:
    """Return residuals by what `key` says of them, in the order in which its values come up."""
    several: dict[str, list[AnyResidual]] = {}
    for row in rows:
        several.setdefault(key(row), []).append(row)
    return several


@dataclass(frozen=True)
class Summary:
    """Errors of the rows of one table, or of all tables: over all rows that count, over those that no fit has used
    (`unseen`), and by use; and the number of rows that do not count. A training rate, which is compared with a bound,
    is not counted in `num_unknown`."""

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
        """The lines of a table of errors: of rows that no fit had seen, then apart from them fitted ones."""
        seen: tuple[Use, ...] = (*UNSEEN, "fitted")
        uses: list[tuple[str, Errors | None]] = [(use, self.by_use[use]) for use in seen if use in self.by_use]
        both = [use for use in UNSEEN if use in self.by_use]
        if self.name == EVERYTHING and len(both) > 1:
            return [(" + ".join(both), self.unseen), *uses]
        return uses or [("", None)]
