"""Softmax of float32 rows as compiled, vectorised kernels: two passes over (mantissa, exponent) pairs, or three passes.

All share the exponential, the lanes and the sums, so that they differ in their passes alone. A row is summed in chunks,
by stripes of lanes: a lane adds `STRIPES` elements in float32, and the lanes of a chunk are added to the row's total in
float64, so that rounding does not grow with the row. One thread. Functions that call each other stay in this file: the
cache of compiled code notices changes of one file only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

LANES: Final = 256
LEAST_LANES: Final = 64
STRIPES: Final = 16  # of a chunk: so many roundings has the sum of a lane
LINE: Final = 16  # floats of a line of the cache
WIDEST: Final = np.float32(2.0**17)  # largest exponent that float32 is trusted with
MOST: Final = 2.0**32  # a chunk whose sum is not below it is summed again, by its own exponent

# google/XNNPACK, src/f32-raddextexp/avx512f-p5-scalef.c.in: 1 / ln 2, ln 2 in two parts, and e^t by a polynomial of
# degree 5, off by 9.2e-8 (relative) on |t| <= ln 2 / 2.
_LOG2E, _LN2_HIGH, _LN2_LOW, _C1, _C2, _C3, _C4, _C5, _ONE = (
    np.float32(float.fromhex(each))
    for each in (
        *("0x1.715476p+0", "0x1.62E43p-1", "-0x1.05C61p-29"),
        *("0x1.FFFFF6p-1", "0x1.FFFDC6p-2", "0x1.555A80p-3", "0x1.573A1Ap-5", "0x1.0F9F9Cp-7", "0x1p0"),
    )
)
_ROUND = np.float32(1.5 * 2**23)  # adding it leaves a whole number in the low bits
_ROUND_BIASED = np.float32(1.5 * 2**23 + 127)  # the same, plus the bias of a float32's exponent
_ROUND_BIASED_64 = 1.5 * 2**52 + 1023
_ZERO = np.float32(-127.0)  # the exponent whose power of two is 0
_TOP = np.float32(126.0)
_LN2 = np.float32(0.6931472)
_LOWEST_SHIFTED = np.float32(-88.0)  # x - max, of which e^x is 2^-127 or less
_MINUS_INFINITY = np.float32(-np.inf)

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function, **options: Any) -> Function:
    """The function as machine code of this CPU, kept for the next process where a folder for it can be written."""
    try:
        made: Function = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    except RuntimeError:  # no such folder
        made = numba.njit(nogil=True, error_model="numpy", **options)(function)
    return made


# ── instructions that Python has no word for ──


def _fma(_: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once."""
    return a(a, b, c), lambda context, builder, signature, arguments: builder.fma(*arguments)


def _shifted_bits(_: Any, value: Any) -> Any:
    """The float whose exponent bits are the low bits of `value`."""
    wide = value.bitwidth == 64
    whole, real, places = (ir.IntType(64), ir.DoubleType(), 52) if wide else (ir.IntType(32), ir.FloatType(), 23)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.shl(builder.bitcast(arguments[0], whole), ir.Constant(whole, places)), real)

    return value(value), generate


def _extreme(sign: str, flags: tuple[str, ...] = ()) -> Any:
    def chosen(_: Any, a: Any, b: Any) -> Any:
        """a or b in one instruction, b where either is not a number; an `if` would become a slow store by mask."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.select(builder.fcmp_ordered(sign, *arguments, flags=flags), *arguments, flags=flags)

        return a(a, b), generate

    return intrinsic(chosen)


fma: Any = intrinsic(_fma)
larger: Any = _extreme(">")
smaller: Any = _extreme("<")
larger_number: Any = _extreme(
    ">", ("nnan", "nsz")
)  # in any order, so that a loop of it is vectorised; anything of a nan
shifted_bits: Any = intrinsic(_shifted_bits)


# ── the exponential ──


@compiled
def exponent(x: Any) -> Any:
    """n of e^x = m 2^n: x / ln 2, rounded to a whole number. |x| below 2^21."""
    return fma(x, _LOG2E, _ROUND) - _ROUND


@compiled
def mantissa(x: Any, n: Any) -> Any:
    """m of e^x = m 2^n, in [0.69, 1.44]."""
    t = fma(n, -_LN2_LOW, fma(n, -_LN2_HIGH, x))
    return fma(t, fma(t, fma(t, fma(t, fma(t, _C5, _C4), _C3), _C2), _C1), _ONE)


@compiled
def power(n: Any, bias: Any) -> Any:
    """2^(n - base) for whole n - base from -127, for which it is 0, to 127; `bias` is that of `base`."""
    return shifted_bits(n + bias)


@compiled
def bias_of(base: Any) -> Any:
    """The addend that brings n - base to the exponent bits of a float."""
    return _ROUND_BIASED - base


@compiled
def scale_of_64(n: Any) -> Any:
    """2^n for whole n up to 0, of float64."""
    return shifted_bits(max(n, -1023.0) + _ROUND_BIASED_64)


@compiled
def shifted_pair(x: Any, top: Any) -> Any:
    """(m, 2^n) of e^(x - top) for x up to `top`; 0 for 2^n below 2^-126."""
    d = larger(_LOWEST_SHIFTED, x - top)
    n = exponent(d)
    return mantissa(d, n), power(n, _ROUND_BIASED)


@compiled
def shifted_exp(x: Any, top: Any) -> Any:
    """e^(x - top)."""
    m, scale = shifted_pair(x, top)
    return m * scale


# ── lanes ──


def _lane_sum(values: Any) -> Any:
    total = 0.0
    for i in range(values.shape[0]):
        total += np.float64(values[i])
    return total


# A sum in float64 of few numbers may be taken in any order; only then is it vectorised.
lane_sum = compiled(_lane_sum, fastmath={"reassoc", "nsz"})


@compiled
def largest(row: Any) -> Any:
    """The largest element; of a row with a nan anything, which does not matter: its sum is nan."""
    top = _MINUS_INFINITY
    for i in range(row.shape[0]):
        top = larger_number(row[i], top)
    return top


@compiled
def width_of(length: int) -> int:
    """Lanes for a row: fewer where it would not have four stripes of them, whole lines of the cache."""
    return min(LANES, max(LEAST_LANES, length // 4 // LEAST_LANES * LEAST_LANES))


@compiled
def room(length: int) -> Any:
    """Lanes for rows of that length, aligned to lines of the cache: what crosses them is stored at half the speed."""
    width = width_of(length)
    space = np.empty(width + LINE, np.float32)
    begin = -(space.ctypes.data // 4) % LINE
    return space[begin : begin + width]


# ── two passes ──


@compiled
def sum_chunk(chunk: Any, base: Any, lanes: Any) -> Any:
    """The sum of m 2^(n - base); large or not a number where some n is too far above `base`."""
    least, most, bias = (base + _ZERO) * _LN2, (base + _TOP) * _LN2, bias_of(base)
    width = lanes.shape[0]
    lanes[:] = 0.0
    for s in range(0, chunk.shape[0], width):
        stripe = chunk[s : s + width]
        for j in range(stripe.shape[0]):
            x = smaller(most, larger(least, stripe[j]))
            n = exponent(x)
            lanes[j] = fma(mantissa(x, n), power(n, bias), lanes[j])
    return lane_sum(lanes)


@compiled
def sum_of_pairs(row: Any, lanes: Any) -> Any:
    """(M, N) with M 2^N the sum of e^x over the row, read once; `lanes` is room.

    The pairs of a chunk are brought to the exponent N of what was summed before, first to that of the largest element
    of the first chunk; where a chunk is far above it, N becomes its own, and the chunk is summed again.
    """
    size = STRIPES * lanes.shape[0]
    total, base = 0.0, exponent(larger(-WIDEST, largest(row[:size])))
    for begin in range(0, row.shape[0], size):
        chunk = row[begin : begin + size]
        part = sum_chunk(chunk, base, lanes)
        if not part < MOST:
            top = exponent(largest(chunk))
            if not base < top <= WIDEST:
                return np.nan, top
            total *= scale_of_64(np.float64(base - top))
            base = top
            part = sum_chunk(chunk, base, lanes)
        total += part
    return total, base


@compiled
def write_pairs(row: Any, out: Any, share: Any, base: Any) -> None:
    """out = m 2^(n - base) * share."""
    least, bias = (base + _ZERO) * _LN2, bias_of(base)
    for i in range(row.shape[0]):
        x = larger(least, row[i])
        n = exponent(x)
        out[i] = mantissa(x, n) * power(n, bias) * share


@compiled
def two_pass(rows: Any, out: Any) -> int:
    """Softmax of every row; return the first row whose exponents float32 does not hold, or -1."""
    lanes = room(rows.shape[1])
    for i in range(rows.shape[0]):
        total, base = sum_of_pairs(rows[i], lanes)
        if not (abs(base) <= WIDEST and 0.0 < total < np.inf):
            return i
        write_pairs(rows[i], out[i], np.float32(1.0 / total), base)
    return -1


# ── three passes ──


@compiled
def sum_shifted(row: Any, top: Any, lanes: Any) -> Any:
    """The sum of e^(x - top) over the row; `lanes` is room."""
    total = 0.0
    width = lanes.shape[0]
    for begin in range(0, row.shape[0], STRIPES * width):
        chunk = row[begin : begin + STRIPES * width]
        lanes[:] = 0.0
        for s in range(0, chunk.shape[0], width):
            stripe = chunk[s : s + width]
            for j in range(stripe.shape[0]):
                m, scale = shifted_pair(stripe[j], top)
                lanes[j] = fma(m, scale, lanes[j])
        total += lane_sum(lanes)
    return total


@compiled
def write_shifted(row: Any, out: Any, top: Any, share: Any) -> None:
    """out = e^(x - top) * share."""
    for i in range(row.shape[0]):
        out[i] = shifted_exp(row[i], top) * share


@compiled
def store_shifted(row: Any, out: Any, top: Any, lanes: Any) -> Any:
    """out = e^(x - top), and its sum; `lanes` is room."""
    total = 0.0
    width = lanes.shape[0]
    for begin in range(0, row.shape[0], STRIPES * width):
        chunk, made = row[begin : begin + STRIPES * width], out[begin : begin + STRIPES * width]
        lanes[:] = 0.0
        for s in range(0, chunk.shape[0], width):
            stripe, into = chunk[s : s + width], made[s : s + width]
            for j in range(stripe.shape[0]):
                value = shifted_exp(stripe[j], top)
                into[j] = value
                lanes[j] += value
        total += lane_sum(lanes)
    return total


@compiled
def multiply(out: Any, share: Any) -> None:
    """out = out * share."""
    for i in range(out.shape[0]):
        out[i] *= share


@compiled
def recompute(rows: Any, out: Any) -> int:
    """Softmax of every row by three passes, exponentials computed twice; the first row that has none, or -1."""
    lanes = room(rows.shape[1])
    for i in range(rows.shape[0]):
        top = largest(rows[i])
        total = sum_shifted(rows[i], top, lanes)
        if not total < np.inf:
            return i
        write_shifted(rows[i], out[i], top, np.float32(1.0 / total))
    return -1


@compiled
def reload(rows: Any, out: Any) -> int:
    """Softmax of every row by three passes, exponentials stored and read again; the first row that has none, or -1."""
    lanes = room(rows.shape[1])
    for i in range(rows.shape[0]):
        top = largest(rows[i])
        total = store_shifted(rows[i], out[i], top, lanes)
        if not total < np.inf:
            return i
        multiply(out[i], np.float32(1.0 / total))
    return -1
