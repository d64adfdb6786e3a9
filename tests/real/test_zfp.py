"""zfp: the stream byte for byte against its six steps written out, what it loses, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

from simfrontier.core.codecs import BLOCK as ZFP_BLOCK, Codec, Zfp
from simfrontier_real.ops.arrays import numpy_backend
from simfrontier_real.ops.codecs import decode, encode
from simfrontier_real.ops.codecs.zfp import LEAST

ALL_ONES, NEGABINARY = 0xFFFFFFFF, 0xAAAAAAAA
RATES = st.integers(9, 128).map(lambda bits: bits / 4)
FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
PIECES = arrays.arrays(np.float32, st.tuples(st.integers(1, 3), st.integers(1, 23)), elements=FINITE)


# ── the format ──


def lifted(x: int, y: int, z: int, w: int) -> list[int]:
    """1/16 [[4, 4, 4, 4], [5, 1, −1, −5], [−4, 4, 4, −4], [−2, 6, −6, 2]], in steps that lose little."""
    x = (x + w) >> 1
    w -= x
    z = (z + y) >> 1
    y -= z
    x = (x + z) >> 1
    z -= x
    w = (w + y) >> 1
    y -= w
    w += y >> 1
    y -= w >> 1
    return [x, y, z, w]


def bits_of_block(block: list[float], budget: int) -> list[int]:
    """A block of 4 as bits in the order in which they are written."""
    largest = max(map(abs, block))
    if largest == 0:
        return [0] * budget
    exponent = math.frexp(largest)[1]
    header = 2 * (exponent + 127) + 1
    bits = [header >> place & 1 for place in range(9)]
    whole = [int(math.ldexp(x, 30 - exponent)) for x in block]  # towards zero
    unsigned = [((q & ALL_ONES) + NEGABINARY & ALL_ONES) ^ NEGABINARY for q in lifted(*whole)]
    known = 0
    for plane in range(31, -1, -1):
        row = [u >> plane & 1 for u in unsigned]
        bits += row[:known]
        while known < 4:
            bits.append(int(any(row[known:])))
            if not bits[-1]:
                break
            while known < 3 and not row[known]:
                bits.append(0)
                known += 1
            if known < 3:
                bits.append(1)
            known += 1
    return (bits + [0] * budget)[:budget]


def stream(values: list[float], budget: int) -> bytes:
    """Blocks one after the other, the least significant bit first, up to a whole word of 64 bits."""
    bits: list[int] = []
    for at in range(0, len(values), 4):
        block = values[at : at + 4]
        block += [block[0], (block + block)[1], block[0]][len(block) - 1 :]
        bits += bits_of_block(block, budget)
    bits += [0] * (-len(bits) % 64)
    return np.packbits(np.array(bits, dtype=np.uint8), bitorder="little").tobytes()


def numbers(kind: str, count: int, seed: int) -> Any:
    draw = np.random.default_rng(seed)
    normal = draw.standard_normal(count)
    match kind:
        case "wide":
            return (normal * 2.0 ** draw.integers(-97, 120, count)).astype(np.float32)
        case "sparse":
            return (normal * (draw.random(count) < 0.3)).astype(np.float32)
        case "smooth":
            return np.sin(0.01 * np.arange(count)).astype(np.float32)
    return normal.astype(np.float32)


@pytest.mark.parametrize("kind", ["normal", "wide", "sparse", "smooth"])
@pytest.mark.parametrize("rate", [2.25, 5.0, 8.0, 16.0, 24.0, 32.0])
def test_streams_are_those_of_the_six_steps(rate: float, kind: str) -> None:
    codec = Zfp(rate=rate)
    for length in (1, 2, 3, 4, 6, 803):
        values = numbers(kind, 2 * length, length).reshape(2, length)
        there = encode(numpy_backend(), values, codec)
        assert there.scales is None and there.data.shape == (2, codec.payload_bytes(length))
        for row, raw in zip(values, there.data, strict=True):
            assert raw.tobytes() == stream(row.tolist(), codec.block_bits)


def test_one_block_by_hand() -> None:
    """Four times 1: exponent 1, header 2 · 128 + 1; q = 2²⁹ four times, whose transform is 2²⁹ and three zeros; in
    negabinary 2²⁹ is 2³⁰ − 2²⁹, so planes 31 (nothing: 0), 30 (1, then 1; nothing more: 0), 29 (1; 0), 28 (0; 0) …"""
    there = encode(numpy_backend(), np.ones((1, 4), np.float32), Zfp(rate=8.0))
    header = 257
    planes = 0b01_011_0 << 9  # read from the right: 0, then 1 1 0, then 1 0
    assert there.data.tobytes() == (header | planes).to_bytes(8, "little")


# ── what it loses ──


def allowed(codec: Codec, peak: float) -> float:
    """What a block may be off by. Below 2⁻⁹⁸ it is sent as zeros. Below 6 bits per value two planes are sure to be
    there, and a number that has lost the rest can leave 32 bits: between −2 and 2 times 2^exponent it is then."""
    if peak < LEAST:
        return peak
    return codec.error_bound(peak) if codec.block_bits >= 24 else 6.0 * 2.0 ** (math.frexp(peak)[1] - 1)


def refuse_beyond_bound(codec: Codec, values: Any, back: Any) -> None:
    count, length = values.shape
    whole = np.zeros((2, count, -(-length // ZFP_BLOCK) * ZFP_BLOCK))
    whole[0, :, :length], whole[1, :, :length] = np.abs(values), np.abs(back - values.astype(np.float64))
    peaks, off = whole.reshape(2, -1, ZFP_BLOCK).max(axis=-1)
    assert np.isfinite(back).all()
    assert (off <= [allowed(codec, float(peak)) for peak in peaks]).all()


@settings(deadline=None)
@given(values=PIECES, rate=RATES)
def test_no_block_is_off_by_more_than_its_bound(values: Any, rate: float) -> None:
    codec, backend = Zfp(rate=rate), numpy_backend()
    there = encode(backend, values, codec)
    refuse_beyond_bound(codec, values, decode(backend, there, codec, values.shape[1], "fp64"))


@pytest.mark.parametrize("rate", [2.25, 4.0, 5.0, 5.75, 6.0, 6.25, 7.0, 8.0, 13.5, 16.0, 24.0, 28.0, 30.0, 31.5, 32.0])
def test_the_bound_holds_where_signs_alternate_and_at_both_ends_of_the_range(rate: float) -> None:
    draw, backend, codec = np.random.default_rng(int(4 * rate)), numpy_backend(), Zfp(rate=rate)
    near_one = draw.choice([-1, 1], (3, 4000)) * (
        1 - draw.choice([0, 0.05, 0.3, 1], (3, 4000)) * draw.random((3, 4000))
    )
    exponents = draw.choice([-149, -126, -99, -98, -97, 0, 127], (3, 1000)).repeat(4, axis=1)
    values = np.ldexp(near_one * (1 - 2.0**-24), exponents + 1).astype(np.float32)
    refuse_beyond_bound(codec, values, decode(backend, encode(backend, values, codec), codec, 4000, "fp64"))
