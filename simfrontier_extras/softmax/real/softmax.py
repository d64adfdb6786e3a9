"""Softmax of rows in float32 by two passes over memory or by three, compiled for this CPU (numba)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from simfrontier.errors import InputError, nearest
from simfrontier_extras.softmax.algorithms import IN_MEMORY

Rows = NDArray[np.float32]
Kernel = Callable[[Rows, Rows], int]


def softmax(rows: Rows, algorithm: str = "two-pass", out: Rows | None = None) -> Rows:
    """Softmax of every row of [rows, elements], or of one row; into `out` where it is given.

    Both arrays are contiguous float32 of one shape and share no memory. Numbers may have any size; -inf has the
    probability 0.

    Where the softmax is 2^-125 or more, the relative error is at most 32 * 2^-24 with two passes (polynomial 2, its
    rounding 2, both in the sum and in the result, sum 16, the rest 3) and 136 * 2^-24 with three, which also round
    x - max, by up to 88 * 2^-24 in the result and 15 * 2^-24 in a sum of 10^8. Below 2^-125 the absolute error is at
    most 2^-125. Rows whose largest number is beyond +-90,852 (2^17 ln 2) are done by two passes in float64, one
    element at a time.

    Raises InputError for other arrays, for an unknown algorithm, and for a row with nan or inf, or of nothing but -inf.
    """
    if algorithm not in IN_MEMORY:
        raise InputError(f"algorithm: got {algorithm!r}; {nearest(algorithm, IN_MEMORY)}")
    _refuse_array("rows", rows)
    if out is None:
        out = np.empty_like(rows)
    _refuse_array("out", out)
    if out.shape != rows.shape or np.may_share_memory(out, rows):
        raise InputError(f"out: got shape {out.shape}; allowed: memory of its own, of the shape of rows, {rows.shape}")
    if rows.size:
        _refuse_row(rows, kernel(algorithm)(np.atleast_2d(rows), np.atleast_2d(out)))
    return out


def kernel(algorithm: str) -> Kernel:
    """The compiled function of an algorithm: ([rows, elements], out) → the first row that has no softmax, or -1. Raises
    InputError where numba is not installed, or not one that works."""
    try:
        from simfrontier_extras.softmax.real import kernels
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError):
            raise InputError(
                f"{error.name} is not installed, which compiles softmax; make setup-real installs it"
            ) from None
        raise InputError(f"numba, which compiles softmax, cannot be used: {str(error).splitlines()[0]}") from None
    return {
        "two-pass": kernels.two_pass,
        "three-pass-recompute": kernels.recompute,
        "three-pass-reload": kernels.reload,
    }[algorithm]


def _refuse_array(name: str, array: Rows) -> None:
    if not isinstance(array, np.ndarray) or array.dtype != np.float32:
        got = getattr(array, "dtype", type(array).__name__)
        raise InputError(f"{name}: got {got}; allowed: an array of float32")
    if array.ndim not in (1, 2) or not array.flags.c_contiguous:
        text = f"{array.ndim} dimensions" if array.ndim not in (1, 2) else "an array with gaps"
        raise InputError(f"{name}: got {text}; allowed: one or two dimensions, contiguous")


def _refuse_row(rows: Rows, row: int) -> None:
    if row >= 0:
        values = np.atleast_2d(rows)[row]
        got = "nan" if np.isnan(values).any() else "inf" if np.isposinf(values).any() else "nothing but -inf"
        raise InputError(f"rows: row {row}: got {got}; allowed: finite numbers, and -inf beside them")
