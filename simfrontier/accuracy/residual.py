"""The values of a validation: what a model says of a measured row, and the row held against it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from simfrontier.analysis import NORMAL_90
from simfrontier.errors import near, nearest
from simfrontier.records import dataclass

if TYPE_CHECKING:
    from simfrontier.measured import Row

Use = Literal["fitted", "left out", "held", "pathology", "no model"]
AVERAGED: tuple[Use, ...] = ("fitted", "left out", "held")  # a known pathology is shown, never averaged
UNSEEN: tuple[Use, ...] = ("left out", "held")  # predicted by what had not seen them
ONLY_BOUNDED = "a rate of training, which is held against a bound"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a shipped model says of one measured row, seconds.

    `low_s` to `high_s` hold 90 % of measurements, if the model's residuals are what it says they are; both are NaN
    where it says nothing of them. `harness_s` is the part of `predicted_s` that belongs to the measuring program and
    not to the collective (a copy, a call of the host).
    """

    predicted_s: float
    low_s: float
    high_s: float
    harness_s: float = 0.0

    def covers(self, measured_s: float) -> bool | None:
        """Whether a measured time lies inside the interval; None where there is no interval."""
        if math.isnan(self.low_s) or math.isnan(self.high_s):
            return None
        return self.low_s <= measured_s <= self.high_s


def around(seconds: float, sd: float) -> Prediction:
    """A time and the central 90 % of a normal of its natural logarithm, whose standard deviation is `sd`."""
    spread = math.exp(NORMAL_90 * sd)
    return Prediction(predicted_s=seconds, low_s=seconds / spread, high_s=seconds * spread)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCovered:
    """No shipped model covers a row; `reason` says what is missing, with the nearest name that there is, or `allowed`
    lists the names where none is near."""

    reason: str
    allowed: str = ""

    def __str__(self) -> str:
        return in_full(self.reason, self.allowed)


def unknown_name(what: str, name: str, known: Iterable[str]) -> NotCovered:
    """Of a row whose `name` is none of those that are known; `what` says of what it is one."""
    names = tuple(known)
    if near(name, names) is None:
        return NotCovered(reason=what, allowed=nearest(name, names))
    return NotCovered(reason=f"{what}; {nearest(name, names)}")


def in_full(reason: str, allowed: str) -> str:
    """A reason with the list of what is allowed, where there is one."""
    return f"{reason}; {allowed}" if allowed else reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRow:
    """A measured row and what is predicted for it.

    `measured_s` is None where the row tells no time (the rate of a training run), `prediction` where no model covers
    the row. `use`: "fitted" where the shipped parameters were fitted to the row, "left out" where the prediction comes
    from a fit that did not see any row of its number of devices, "held" where no fit saw it. `why` says what is wrong
    with a pathology, or why there is no model, and `allowed` lists the names of which one would have a model.
    """

    table: str
    row: Row
    measured_s: float | None
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
        if self.prediction is None or self.measured_s is None:
            return None
        return self.prediction.predicted_s / self.measured_s - 1.0

    @property
    def is_covered(self) -> bool | None:
        """Whether the measured time lies inside the predicted interval; None where there is no interval."""
        if self.prediction is None or self.measured_s is None:
            return None
        return self.prediction.covers(self.measured_s)

    @property
    def is_averaged(self) -> bool:
        """Whether the row counts in averages."""
        return self.error is not None and self.use in AVERAGED
