"""Distributions of sampled numbers: quantiles by `scipy.stats`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from simfrontier.answers.sweep.form import SamplesTable
from simfrontier.base.arrays import Floats
from simfrontier.base.errors import InputError

ENDS: Final = 2.0**-53  # of a share: at 0 and 1 a normal distribution has no value
NEEDED: Final = {
    "uniform": ("low", "high"),
    "log-uniform": ("low", "high"),
    "normal": ("mean", "sd"),
    "log-normal": ("median", "sd"),
    "triangular": ("low", "mode", "high"),
}
CUT: Final = {"normal": ("low", "high"), "log-normal": ("low", "high")}


def quantiles(table: SamplesTable, shares: Sequence[float] | Floats) -> Floats:
    """Return the numbers below which these shares of a distribution lie."""
    is_log = table.distribution.startswith("log-")
    numbers = _frozen(table, is_log).ppf(np.clip(shares, ENDS, 1.0 - ENDS))
    found: Floats = np.exp(numbers) if is_log else numbers
    return found


def _frozen(table: SamplesTable, is_log: bool) -> Any:
    """The distribution of scipy: of logarithms where `is_log`."""
    from scipy import stats

    low, high = (None if end is None else math.log(end) if is_log else end for end in (table.low, table.high))
    if table.sd is not None:  # normal, perhaps cut
        middle = math.log(table.median) if table.median is not None else table.mean or 0.0
        first = -math.inf if low is None else (low - middle) / table.sd
        last = math.inf if high is None else (high - middle) / table.sd
        return stats.truncnorm(first, last, loc=middle, scale=table.sd)
    assert low is not None and high is not None, "looked at by refuse_parameters"
    if table.mode is not None:
        return stats.triang((table.mode - low) / (high - low), loc=low, scale=high - low)
    return stats.uniform(loc=low, scale=high - low)


def refuse_parameters(table: SamplesTable) -> None:
    """Raise InputError for parameters that are missing, of another distribution, or in a wrong order."""
    name = table.distribution
    needed, may = NEEDED[name], (*NEEDED[name], *CUT.get(name, ()))
    for parameter in ("low", "high", "mean", "sd", "median", "mode"):
        given = getattr(table, parameter) is not None
        if given and parameter not in may:
            raise InputError(f"a {name} distribution has none; allowed: {', '.join(may)}", key=(parameter,))
        if not given and parameter in needed:
            raise InputError(f"missing; a {name} distribution needs {', '.join(needed)}", key=(parameter,))
    low, high, mode = table.low, table.high, table.mode
    if low is not None and high is not None and not low < high:
        raise InputError(f"got {high:g}, allowed: above low, which is {low:g}", key=("high",))
    if mode is not None and low is not None and high is not None and not low <= mode <= high:
        raise InputError(f"got {mode:g}, allowed: {low:g} to {high:g}", key=("mode",))
    for parameter, end in (("low", low), ("high", high)):
        if name.startswith("log-") and end is not None and end <= 0:
            raise InputError(f"got {end:g}, allowed: above 0, as its logarithm is taken", key=(parameter,))
