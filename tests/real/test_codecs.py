"""Codecs as bytes on the wire: how far they may be off, how long they are, and the same in numpy and torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.codecs import Codec, Plain, Quantised, Zfp
from simfrontier_real.ops.arrays import numpy_backend, torch_backend
from simfrontier_real.ops.codecs import decode, encode

RATES = st.integers(9, 128).map(lambda bits: bits / 4)
QUANTISED = st.builds(Quantised, st.sampled_from(["int8", "int4"]), st.integers(1, 40))
# numbers as gradients have them: many orders of magnitude, and zeros; a scale below 1e-38 would have few digits
NUMBER = st.just(0.0) | st.floats(2.0**-66, 2.0**66, width=32) | st.floats(-(2.0**66), -(2.0**-66), width=32)


FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
ANY_FINITE = arrays.arrays(np.float32, st.tuples(st.integers(1, 3), st.integers(1, 40)), elements=FINITE)


@st.composite
def pieces(draw: st.DrawFn) -> np.ndarray[Any, np.dtype[np.float32]]:
    """[pieces, elements], with blocks of zeros among them."""
    count, length = draw(st.integers(1, 4)), draw(st.integers(1, 70))
    flat = draw(st.lists(NUMBER, min_size=count * length, max_size=count * length))
    out = np.array(flat, dtype=np.float32).reshape(count, length)
    out[:, : draw(st.integers(0, length))] = 0
    return out


def blocks_of(codec: Codec, scales: Any, length: int) -> Any:
    """Each element's scale."""
    return np.repeat(scales, codec.block, axis=1)[:, :length]


@given(values=pieces(), codec=QUANTISED)
def test_no_element_is_off_by_more_than_half_its_scale(values: Any, codec: Codec) -> None:
    backend = numpy_backend()
    there = encode(backend, values, codec)
    back = decode(backend, there, codec, values.shape[1], "fp64")
    # level · scale rounds once, and so does the quotient that is rounded to a level: 2⁻²³ of the value each
    rounding = 2.0**-22 * np.abs(values.astype(np.float64))
    off = np.abs(back - values.astype(np.float64))
    assert (off <= blocks_of(codec, there.scales, values.shape[1]) / 2 + rounding).all()


@given(values=pieces(), codec=QUANTISED)
def test_bytes_are_those_of_the_codec_piece_by_piece(values: Any, codec: Codec) -> None:
    count, length = values.shape
    there = encode(numpy_backend(), values, codec)
    assert there.scales is not None
    assert there.data.shape == (count, codec.payload_bytes(length))
    assert there.data.nbytes == count * codec.payload_bytes(length)
    assert there.scales.nbytes == count * codec.scale_bytes(length)


@settings(deadline=None)
@given(values=pieces() | ANY_FINITE, codec=QUANTISED | RATES.map(lambda rate: Zfp(rate=rate)))
def test_numpy_and_torch_agree_to_the_bit(values: Any, codec: Codec) -> None:
    import torch

    ours, theirs = numpy_backend(), torch_backend()
    a, b = encode(ours, values, codec), encode(theirs, torch.from_numpy(values), codec)
    for mine, other in zip(a.parts, b.parts, strict=True):
        assert mine.tobytes() == other.numpy().tobytes()
    length = values.shape[1]
    back = decode(theirs, b, codec, length, "fp32").contiguous()
    assert decode(ours, a, codec, length, "fp32").tobytes() == back.numpy().tobytes()


def test_int4_by_hand() -> None:
    """[7, −3.4, 0.6] in one block: scale 7 / 7 = 1, levels 7, −3, 1, stored as level + 8 = 15, 5, 9; two to a byte,
    the first low: 5 · 16 + 15 = 95, then 9 alone."""
    codec = Quantised("int4", 4)
    values = np.array([[7, -3.4, 0.6]], dtype=np.float32)
    there = encode(numpy_backend(), values, codec)
    assert there.scales is not None
    assert (there.data.tolist(), there.scales.tolist()) == ([[95, 9]], [[1.0]])
    assert decode(numpy_backend(), there, codec, 3, "fp64").tolist() == [[7.0, -3.0, 1.0]]


def test_int8_by_hand() -> None:
    """[254, −1, 1.2 | 0] in blocks of 3: scales 254 / 127 = 2 and 0; −0.5 and 0.6 of a scale round to 0 (to even)
    and 1; stored as level + 128."""
    codec = Quantised("int8", 3)
    there = encode(numpy_backend(), np.array([[254, -1, 1.2, 0]], dtype=np.float32), codec)
    assert there.scales is not None
    assert (there.data.tolist(), there.scales.tolist()) == ([[255, 128, 129, 128]], [[2.0, 0.0]])


@pytest.mark.parametrize("name", ["int8", "int4"])
@pytest.mark.parametrize(
    "units", [*range(1, 40), 63, 64, 126, 127, 128, 180, 190, 254, 255, 1000, 10_000, 2**23, 2**29]
)
def test_the_smallest_numbers_keep_to_the_bound(name: str, units: int) -> None:
    """Multiples of 2⁻¹⁴⁹, whose scales have few digits or would be zero."""
    codec, backend = Quantised(name, 64), numpy_backend()
    values = np.ldexp(np.linspace(-units, units, 64), -149).astype(np.float32)[None]
    off = np.abs(decode(backend, encode(backend, values, codec), codec, 64, "fp64") - values.astype(np.float64))
    peak = float(np.abs(values).max())
    assert off.max() <= codec.error_bound(peak) + 2.0**-22 * peak + 2.0**-150


@pytest.mark.parametrize("name", ["int8", "int4"])
def test_the_largest_numbers_stay_finite(name: str) -> None:
    codec, backend = Quantised(name, 1), numpy_backend()
    values = (np.uint32(0x7F7FFFFF) - np.arange(2000, dtype=np.uint32)).view(np.float32)[None]
    back = decode(backend, encode(backend, values, codec), codec, 2000, "fp32")
    assert np.abs(back / values - 1).max() <= 2.0**-22


# ── what is refused, and what is not ──


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("codec", [Quantised("int8", 4), Quantised("int4", 4), Zfp(rate=8.0)], ids=str)
def test_what_is_not_finite_is_refused_where_numbers_share_a_scale_or_exponent(codec: Codec, bad: float) -> None:
    import torch

    values = torch.ones((2, 13))
    values[0, 12] = values[1, 3] = bad
    for backend, pieces in ((torch_backend(), values), (numpy_backend(), values.numpy())):
        with pytest.raises(SimfrontierError) as raised:
            encode(backend, pieces, codec)
        assert str(raised.value) == (
            f"codec {codec}: 2 of 26 numbers are not finite in fp32, the first at index 12 of piece 0; "
            "allowed: finite numbers (any bits, without loss: mpc or plain numbers)"
        )


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
def test_plain_numbers_carry_what_is_not_finite(dtype: str) -> None:
    """A gradient that overflows its type is infinite on the wire; the step is skipped where one arrives."""
    backend = torch_backend()
    values = backend.array(np.array([[1.0, math.inf, -math.inf, math.nan, 1e39]]), "fp64")
    back = decode(backend, encode(backend, values, Plain(dtype)), Plain(dtype), 5, "fp64")
    assert backend.xp.isfinite(back).tolist() == [[True, False, False, False, False]]
