"""A measurement compared with its prediction: the residual of measured rows and of published runs alike."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import numpy as np

from simfrontier.answers.step import NORMAL_90
from simfrontier.base.arrays import Floats
from simfrontier.base.errors import near, nearest


def factor_90(sd: float) -> float:
    """Factor from the median to the ends of the central 90 % interval of a log-normal; `sd` is of the logarithm."""
    return math.exp(NORMAL_90 * sd)


def covariance(slopes: Floats, weights: Floats, prior_sd: Floats) -> Floats:
    """Covariance of fitted parameters: (JᵀWJ + P)⁻¹.

    `slopes`: J, how the points move with the parameters, [points, parameters]. `weights`: diagonal of W, the inverse
    variance of each point times the weight that a robust loss gives it, [points]. `prior_sd`: P is diag(prior_sd⁻²),
    what is known of the parameters without the points, [parameters].
    """
    precision = slopes.T @ (weights[:, None] * slopes) + np.diag(prior_sd**-2.0)
    return np.asarray(np.linalg.inv(precision), np.float64)


Use = Literal["fitted", "left out", "held", "pathology", "no model"]
AVERAGED: tuple[Use, ...] = ("fitted", "left out", "held")  # a known pathology is shown, never averaged
UNSEEN: tuple[Use, ...] = ("left out", "held")  # predicted by what had not seen them
ONLY_BOUNDED = "a rate of training, which is held against a bound"

MeasuredRow = TypeVar("MeasuredRow", covariant=True)


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

    def covers(self, measured: float) -> bool | None:
        """Return whether a measured value lies inside the interval; None where there is no interval."""
        return self.low <= measured <= self.high if self.has_interval else None

    @property
    def has_interval(self) -> bool:
        """Return whether the model says how far off it may be."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def half_width(self) -> float:
        """Half of the interval, relative to the value."""
        return (self.high - self.low) / 2.0 / self.value


def around(value: float, sd: float, harness_s: float = 0.0) -> Prediction:
    """A value and the central 90 % of a normal of its natural logarithm, whose standard deviation is `sd`."""
    factor = factor_90(sd)
    return Prediction(value=value, low=value / factor, high=value * factor, harness_s=harness_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCovered:
    """No shipped model covers a row; `reason` says what is missing, with the nearest name that there is, or `allowed`
    lists the names where none is near."""

    reason: str
    allowed: str = ""

    def __str__(self) -> str:
        return in_full(self.reason, self.allowed)


def unknown_name(what: str, name: str, known: Iterable[str]) -> NotCovered:
    """Return why a row is not covered whose `name` is none of those known; `what` says of what it is one."""
    names = tuple(known)
    if near(name, names) is None:
        return NotCovered(reason=what, allowed=nearest(name, names))
    return NotCovered(reason=f"{what}; {nearest(name, names)}")


def in_full(reason: str, allowed: str) -> str:
    """A reason with the list of what is allowed, where there is one."""
    return f"{reason}; {allowed}" if allowed else reason


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
        return in_full(self.why, self.allowed)

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
