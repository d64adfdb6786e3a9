"""Exponentials as m 2^n, which cannot overflow; sums of them along an axis, and softmax, for numpy and torch alike."""

from __future__ import annotations

import math
from typing import Any, Final

from simfrontier_real.ops.arrays import Array

LOG2E: Final = math.log2(math.e)
# ln 2 as a sum of which the first part has so few bits that its product with a whole number up to 2^20 is exact
# (fdlibm, e_exp.c).
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_REMAINDER: Final = 0.35  # more than ln 2 / 2, which it is but for numbers so large that their last digits are lost


def as_pairs(xp: Any, values: Array) -> tuple[Array, Array]:
    """(m, n) with exp(x) = m 2^n, n whole and in float64, m from 0.7 to 1.42 and of the values' type; (0, -inf) of
    x = -inf (arXiv 2001.04438). The argument is reduced in float64, so that n is right for every finite float32."""
    is_none = values == -math.inf
    wide = xp.astype(xp.where(is_none, xp.zeros_like(values), values), xp.float64)
    power = xp.round(wide * LOG2E)
    remainder = xp.clip(wide - power * LN2_HIGH - power * LN2_LOW, -_REMAINDER, _REMAINDER)
    mantissa = xp.astype(xp.exp(remainder), values.dtype)
    nowhere = xp.full_like(power, -math.inf)
    return xp.where(is_none, xp.zeros_like(values), mantissa), xp.where(is_none, nowhere, power)


def summed_pairs(xp: Any, mantissa: Array, power: Array, axis: int) -> tuple[Array, Array]:
    """(m, n) of the sum along an axis, which stays with size 1: (m1, n1) + (m2, n2) = (m1 2^(n1-K) + m2 2^(n2-K), K)
    with K the larger n. The sum of nothing is (0, -inf)."""
    top = xp.max(power, axis=axis, keepdims=True)
    scale = xp.exp2(power - xp.where(top == -math.inf, xp.zeros_like(top), top))
    return xp.sum(mantissa * xp.astype(scale, mantissa.dtype), axis=axis, keepdims=True), top


def summed_by_maximum(xp: Any, top: Array, total: Array, axis: int) -> tuple[Array, Array]:
    """(maximum, sum of exp(x - maximum)) along an axis, which stays with size 1, out of those of parts."""
    highest = xp.max(top, axis=axis, keepdims=True)
    return highest, xp.sum(total * xp.exp(top - highest), axis=axis, keepdims=True)


def softmax_by_pairs(xp: Any, values: Array) -> Array:
    """Softmax over the last dimension in two passes, without the largest value of a row."""
    mantissa, power = as_pairs(xp, values)
    total, top = summed_pairs(xp, mantissa, power, axis=-1)
    return mantissa / total * xp.astype(xp.exp2(power - top), values.dtype)


def softmax_by_maximum(xp: Any, values: Array) -> Array:
    """Softmax over the last dimension of differences to the largest value of a row."""
    exponentials = xp.exp(values - xp.max(values, axis=-1, keepdims=True))
    return exponentials / xp.sum(exponentials, axis=-1, keepdims=True)
