"""Distributions of numbers: the value below which a share of them lies."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Final

from simfrontier.errors import InputError
from simfrontier.limits import LARGEST
from simfrontier.sweep.form import SamplesTable

Quantile = Callable[[float], float]  # of a share in (0, 1)
ENDS: Final = 2.0**-53  # of a share: at 0 and 1 a normal distribution has no value
DIGITS: Final = 12  # of a number that is computed here: more of them differ between systems' logarithms
NEEDED: Final = {
    "uniform": ("low", "high"),
    "log-uniform": ("low", "high"),
    "normal": ("mean", "sd"),
    "log-normal": ("median", "sd"),
    "triangular": ("low", "mode", "high"),
}
CUT: Final = {"normal": ("low", "high"), "log-normal": ("low", "high")}


def rounded(number: float) -> float:
    """A number with as many digits as are written."""
    return float(f"{number:.{DIGITS}g}")


def quantile_of(table: SamplesTable) -> Quantile:
    """The quantiles of a distribution. Raises InputError for parameters that are missing, of another distribution, or
    in a wrong order."""
    _refuse_parameters(table)
    low, high = table.low, table.high
    match table.distribution:
        case "uniform":
            return _uniform(_known(low), _known(high))
        case "log-uniform":
            return _log_uniform(_known(low), _known(high))
        case "triangular":
            return _triangular(_known(low), _known(table.mode), _known(high))
        case "normal":
            return _cut(NormalDist(_known(table.mean), _known(table.sd)), low, high)
        case "log-normal":
            inner = NormalDist(math.log(_known(table.median)), _known(table.sd))
            if high is None and inner.inv_cdf(1 - ENDS) > math.log(LARGEST):
                text = f"got {table.sd:g}, with which numbers go beyond {LARGEST:g}; allowed: less, or with high"
                raise InputError(text, key=("sd",))
            of_log = _cut(inner, *(None if end is None else math.log(end) for end in (low, high)))
            return lambda share: math.exp(of_log(share))


def _known(number: float | None) -> float:
    assert number is not None, "parameters are looked at first"
    return number


def _refuse_parameters(table: SamplesTable) -> None:
    name = table.distribution
    needed, may = NEEDED[name], (*NEEDED[name], *CUT.get(name, ()))
    words = ", ".join(needed)
    for parameter in ("low", "high", "mean", "sd", "median", "mode"):
        given = getattr(table, parameter) is not None
        if given and parameter not in may:
            raise InputError(f"a {name} distribution has none; allowed: {', '.join(may)}", key=(parameter,))
        if not given and parameter in needed:
            raise InputError(f"missing; a {name} distribution needs {words}", key=(parameter,))
    low, high, mode = table.low, table.high, table.mode
    if low is not None and high is not None and not low < high:
        raise InputError(f"got {high:g}, allowed: above low, which is {low:g}", key=("high",))
    if mode is not None and low is not None and high is not None and not low <= mode <= high:
        raise InputError(f"got {mode:g}, allowed: {low:g} to {high:g}", key=("mode",))
    for parameter, end in (("low", low), ("high", high)):
        if name.startswith("log-") and end is not None and end <= 0:
            raise InputError(f"got {end:g}, allowed: above 0, as its logarithm is taken", key=(parameter,))


def _uniform(low: float, high: float) -> Quantile:
    return lambda share: low + share * (high - low)


def _log_uniform(low: float, high: float) -> Quantile:
    start, width = math.log(low), math.log(high) - math.log(low)
    return lambda share: min(high, max(low, math.exp(start + share * width)))


def _triangular(low: float, mode: float, high: float) -> Quantile:
    turn = (mode - low) / (high - low)  # the share below the mode

    def quantile(share: float) -> float:
        if share < turn:
            return low + math.sqrt(share * (high - low) * (mode - low))
        return high - math.sqrt((1 - share) * (high - low) * (high - mode))

    return quantile


def _cut(normal: NormalDist, low: float | None, high: float | None) -> Quantile:
    """Of a normal distribution of which only what lies between the ends is left."""
    first = 0.0 if low is None else normal.cdf(low)
    last = 1.0 if high is None else normal.cdf(high)
    if last - first < ENDS:
        raise InputError("nothing of the distribution lies between low and high; allowed: ends with something between")

    def quantile(share: float) -> float:
        inside = min(1 - ENDS, max(ENDS, first + share * (last - first)))
        value = normal.inv_cdf(inside)
        return min(math.inf if high is None else high, max(-math.inf if low is None else low, value))

    return quantile
