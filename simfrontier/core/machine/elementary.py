"""Elementary functions for formulas that accept floats, or numpy arrays with one value per variation.

A formula of floats stays pure Python. numpy is imported only when an argument is an array, so that reading a machine's
file does not need it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")
_SINGLE: Final = (float, int)  # bool is an int


def _or_of_arrays(name: str, single: Callable[P, T]) -> Callable[P, T]:
    """Return a function that applies the given function to single numbers, and numpy's function `name` if an argument
    is an array."""

    def function(*given: P.args, **named: P.kwargs) -> T:
        if all(isinstance(each, _SINGLE) for each in given):
            return single(*given, **named)
        import numpy as np

        return cast(T, cast(Any, getattr(np, name))(*given)[()])

    return function


def _maximum(x: float, y: float) -> float:
    return y if y > x else x


def _minimum(x: float, y: float) -> float:
    return y if y < x else x


def _where(condition: bool, x: float, y: float) -> float:
    return x if condition else y


def _whole(x: float) -> int:
    return round(x)


exp = _or_of_arrays("exp", math.exp)
log1p = _or_of_arrays("log1p", math.log1p)
maximum = _or_of_arrays("maximum", _maximum)
minimum = _or_of_arrays("minimum", _minimum)
where = _or_of_arrays("where", _where)  # x where the condition holds, y elsewhere
whole = _or_of_arrays("rint", _whole)  # the nearest whole number, of two the even one
