"""Elementary functions of numbers in formulas: of floats, or of numpy arrays that hold a value for each variation.

A formula of floats stays one of Python's floats. numpy is imported where an array comes in: reading a file needs none.
"""

from __future__ import annotations

import math


def exp(x: float) -> float:
    """e to the power of x."""
    if _is_array(x):
        import numpy as np

        raised: float = np.exp(x)
        return raised
    return math.exp(x)


def log1p(x: float) -> float:
    """The natural logarithm of 1 + x, exact for small x."""
    if _is_array(x):
        import numpy as np

        logarithm: float = np.log1p(x)
        return logarithm
    return math.log1p(x)


def maximum(x: float, y: float) -> float:
    """The greater of two numbers."""
    if _is_array(x) or _is_array(y):
        import numpy as np

        greater: float = np.maximum(x, y)
        return greater
    return max(x, y)


def minimum(x: float, y: float) -> float:
    """The smaller of two numbers."""
    if _is_array(x) or _is_array(y):
        import numpy as np

        smaller: float = np.minimum(x, y)
        return smaller
    return min(x, y)


def whole(x: float) -> int:
    """The nearest whole number, of two the even one."""
    if _is_array(x):
        import numpy as np

        nearest: int = np.rint(x)
        return nearest
    return round(x)


def where(condition: bool, x: float, y: float) -> float:
    """x where the condition holds, y elsewhere."""
    if _is_array(condition):
        import numpy as np

        return np.where(condition, x, y)  # type: ignore[return-value]
    return x if condition else y


def _is_array(x: object) -> bool:
    return getattr(x, "ndim", 0) > 0
