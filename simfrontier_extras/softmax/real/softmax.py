"""Softmax of rows in float32 by two passes over memory or by three, compiled for this CPU (numba)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.errors import InputError, nearest
from simfrontier_extras.softmax.rates import IN_MEMORY

Rows = NDArray[np.float32]
Kernel = Callable[[Rows, Rows], int]


def softmax(rows: Rows, algorithm: str = "two-pass") -> Rows:
    """Return the softmax of every row of [rows, elements], or of one row. Numbers may have any size; -inf has the
    probability 0.

    Where the softmax is 2^-125 or more, the relative error is at most 32 * 2^-24 with two passes (polynomial 2, its
    rounding 2, both in the sum and in the result, sum 16, the rest 3) and 136 * 2^-24 with three, which also round
    x - max, by up to 88 * 2^-24 in the result and 15 * 2^-24 in a sum of 10^8. Below 2^-125 the absolute error is at
    most 2^-125. With two passes, rows whose largest number is beyond +-90,852 (2^17 ln 2) are computed by scipy.

    Raises InputError for an unknown algorithm, and for a row with nan or inf, or of nothing but -inf.
    """
    if algorithm not in IN_MEMORY:
        raise InputError(f"algorithm: got {algorithm!r}; {nearest(algorithm, IN_MEMORY)}")
    table = np.atleast_2d(np.ascontiguousarray(rows, dtype=np.float32))
    out, work, begin = np.empty_like(table), kernel(algorithm), 0
    while table.size and (done := work(table[begin:], out[begin:])) >= 0:
        begin += done
        out[begin] = _in_float64(table[begin], begin)
        begin += 1
    return out.reshape(np.shape(rows))


def _in_float64(row: Rows, number: int) -> NDArray[np.float64]:
    from scipy.special import softmax as softmax_of_row

    if not (row < np.inf).all() or np.isneginf(row).all():
        got = "nan" if np.isnan(row).any() else "inf" if np.isposinf(row).any() else "nothing but -inf"
        raise InputError(f"rows: row {number}: got {got}; allowed: finite numbers, and -inf beside them")
    return np.asarray(softmax_of_row(row.astype(np.float64)))


def kernel(algorithm: str) -> Kernel:
    """Return the compiled function of an algorithm: ([rows, elements], out) → the first row that it cannot compute, or
    -1. Raises InputError where numba is not installed."""
    try:
        from simfrontier_extras.softmax.real import kernels
    except ModuleNotFoundError as error:
        text = f"{error.name} is not installed, which compiles softmax; make setup-real installs it"
        raise InputError(text) from None
    return {
        "two-pass": kernels.two_pass,
        "three-pass-recompute": kernels.recompute,
        "three-pass-reload": kernels.reload,
    }[algorithm]
