"""Elementary functions of what formulas call numbers: floats, or what has a value for each of many variations."""

from __future__ import annotations

import math


def exp(x: float) -> float:
    """e to the power of x."""
    return math.exp(x) if isinstance(x, float) else x.exp()


def log1p(x: float) -> float:
    """The natural logarithm of 1 + x, exact for small x."""
    return math.log1p(x) if isinstance(x, float) else x.log1p()
