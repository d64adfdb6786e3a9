"""Elementary functions of numbers in formulas: of floats, or of numpy arrays that hold a value for each variation.

A formula of floats stays one of Python's floats. numpy is imported where an array comes in: reading a file needs none.
"""

from __future__ import annotations

import math
from typing import Final

_SINGLE: Final = (float, int)


def exp(x: float) -> float:
    """e to the power of x."""
    if isinstance(x, _SINGLE):
        return math.exp(x)
    import numpy as np

    return np.exp(x)


def log1p(x: float) -> float:
    """The natural logarithm of 1 + x, exact for small x."""
    if isinstance(x, _SINGLE):
        return math.log1p(x)
    import numpy as np

    return np.log1p(x)


def maximum(x: float, y: float) -> float:
    """The greater of two numbers."""
    if isinstance(x, _SINGLE) and isinstance(y, _SINGLE):
        return y if y > x else x
    import numpy as np

    return np.maximum(x, y)


def minimum(x: float, y: float) -> float:
    """The smaller of two numbers."""
    if isinstance(x, _SINGLE) and isinstance(y, _SINGLE):
        return y if y < x else x
    import numpy as np

    return np.minimum(x, y)


def whole(x: float) -> int:
    """The nearest whole number, of two the even one."""
    if isinstance(x, _SINGLE):
        return round(x)
    import numpy as np

    return np.rint(x)


def where(condition: bool, x: float, y: float) -> float:
    """x where the condition holds, y elsewhere."""
    if isinstance(condition, bool):
        return x if condition else y
    import numpy as np

    return np.where(condition, x, y)[()]
