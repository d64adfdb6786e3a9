"""mpc: the stream word for word against its four steps written out, bits that all come back, and how far it shrinks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.codecs.mpc import Mpc
from simfrontier.errors import InputError, SimfrontierError
from simfrontier_real.arrays import numpy_backend, torch_backend
from simfrontier_real.codecs import Encoded, decode, encode, mpc

MPC = Mpc()
WORD = 2**32
CHUNK = 1024


# ── the format ──


def stream(words: list[int]) -> list[int]:
    """The four steps, one word at a time."""
    padded = words + [0] * (-len(words) % 32)
    d = [(word - (padded[i - 1] if i % CHUNK else 0)) % WORD if i < len(words) else 0 for i, word in enumerate(padded)]
    t = []
    for start in range(0, len(d), 32):
        t += [sum((d[start + k] >> i & 1) << k for k in range(32)) for i in range(32)]
    e = [(word - (t[i - 1] if i % CHUNK else 0)) % WORD for i, word in enumerate(t)]
    maps = [sum((e[start + k] != 0) << k for k in range(32)) for start in range(0, len(e), 32)]
    return [0x63706D00, len(words), *maps, *filter(None, e)]


@pytest.mark.parametrize("length", [1, 2, 31, 32, 33, 64, 70, 1023, 1024, 1025, 2100])
def test_streams_are_those_of_the_four_steps(length: int) -> None:
    draw = np.random.default_rng(length)
    values = draw.integers(0, WORD, (4, length), dtype=np.uint32)
    values[1] = draw.standard_normal(length, dtype=np.float32).view(np.uint32)
    values[2, length // 3 :] = 0
    values[3] = 7
    there = encode(numpy_backend(), values.view(np.float32), MPC)
    assert there.scales is None and there.data.shape == (4, mpc.capacity_bytes(length, "fp32"))
    assert there.data.dtype == np.uint8
    for row, raw, size in zip(values, there.data, mpc.stream_bytes(there.data), strict=True):
        assert raw[:size].view(np.uint32).tolist() == stream(row.tolist())
        assert not raw[size:].any()


def test_a_stream_by_hand() -> None:
    """Three words of 1: differences 1, 0, 0; transposed, bit 0 of word 0 alone; differences 1, −1, 0 …"""
    there = encode(numpy_backend(), np.ones((1, 3), np.uint32).view(np.float32), MPC)
    assert there.data.view(np.uint32)[0, :6].tolist() == [0x63706D00, 3, 0b11, 1, WORD - 1, 0]
    assert mpc.stream_bytes(there.data).tolist() == [20]


def test_the_longest_stream_fills_its_room() -> None:
    """Bits that alternate from word to word of the transposed leave no word out, were it one word in the end."""
    values = np.array([[0x55555555]], dtype=np.uint32).view(np.float32)
    there = encode(numpy_backend(), values, MPC)
    assert mpc.stream_bytes(there.data).tolist() == [mpc.capacity_bytes(1, "fp32")] == [4 * (2 + 1 + 32)]


# ── every bit comes back ──


def patterns(draw: np.random.Generator, count: int, length: int) -> Any:
    """[count, length] words, a kind for each piece."""
    at = np.arange(length, dtype=np.uint32)
    out = draw.integers(0, WORD, (count, length), dtype=np.uint32)
    kind = draw.integers(0, 9, count)[:, None]
    first = out[:, :1].copy()
    normal = draw.standard_normal((count, length), dtype=np.float32)
    kinds = (
        out,
        np.broadcast_to(first, out.shape),  # constants
        np.zeros_like(out),
        first + at,  # ramps of words
        (normal[:, :1] * at.astype(np.float32)).view(np.uint32),  # ramps of numbers
        normal.view(np.uint32),
        out & 0x007FFFFF | (out & 0x80000000),  # denormals and zeros of both signs
        out | 0x7F800000,  # infinite, and NaN with any payload
        out * (draw.random(out.shape) < 0.1),  # mostly zeros
    )
    return np.select([kind == number for number in range(len(kinds))], kinds).astype(np.uint32)


def batches() -> Iterator[tuple[int, int]]:
    """(pieces, words): 10⁵ pieces of every length up to 200, and some of thousands."""
    yield from ((495, length) for length in range(1, 201))
    yield from ((99, length) for length in (255, 256, 257, 511, 1000, 1023, 1024, 1025, 2047, 2048, 2049))
    yield from ((3, length) for length in (4095, 4096, 4097, 40_001, 65_536))


def test_a_hundred_thousand_arrays_come_back_bit_for_bit() -> None:
    draw, backend, total = np.random.default_rng(11), numpy_backend(), 0
    for count, length in batches():
        words = patterns(draw, count, length)
        there = encode(backend, words.view(np.float32), MPC)
        back = decode(backend, there, MPC, length, "fp32")
        assert np.array_equal(back.view(np.uint32), words)
        assert mpc.stream_bytes(there.data).max() <= there.data.shape[1]
        total += count
    assert total >= 100_000


SIZES = {"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2}


@settings(deadline=None)
@given(
    dtype=st.sampled_from(sorted(SIZES)), count=st.integers(1, 3), length=st.integers(1, 70), seed=st.integers(0, 99)
)
def test_any_type_comes_back_bit_for_bit_in_both_libraries(dtype: str, count: int, length: int, seed: int) -> None:
    """fp16 and bf16 two to a word, an odd one padded with zeros; fp64 in two words; NaN with their payloads."""
    import torch

    theirs, codec = torch_backend(), Mpc(of=dtype)
    raw = np.random.default_rng(seed).integers(0, 256, (count, length * SIZES[dtype]), dtype=np.uint8)
    values = torch.from_numpy(raw).view(theirs.dtype(dtype))
    there = encode(theirs, values, codec)
    words = np.pad(raw, ((0, 0), (0, -raw.shape[1] % 4))).view(np.uint32)
    assert there.data.shape[1] == mpc.capacity_bytes(length, dtype) == 4 * (2 + 33 * -(-words.shape[1] // 32))
    sizes = mpc.stream_bytes(there.data)
    for row, coded, size in zip(words, there.data.numpy(), sizes, strict=True):
        assert coded[:size].view(np.uint32).tolist() == stream(row.tolist())
    back = decode(theirs, there, codec, length, dtype)
    assert back.dtype == values.dtype and back.view(torch.uint8).numpy().tobytes() == raw.tobytes()
    if dtype != "bf16":
        ours = numpy_backend()
        mine = encode(ours, raw.view(ours.dtype(dtype)), codec)
        assert mine.data.tobytes() == there.data.numpy().tobytes()
        assert decode(ours, mine, codec, length, dtype).tobytes() == raw.tobytes()


def test_a_type_can_be_asked_for_that_is_wider_than_what_was_sent() -> None:
    backend, codec = torch_backend(), Mpc(of="bf16")
    values = backend.array(np.array([[1.5, -2, 0.25]]), "bf16")
    back = decode(backend, encode(backend, values, codec), codec, 3, "fp64")
    assert (back.dtype, back.tolist()) == (backend.dtype("fp64"), [[1.5, -2, 0.25]])


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_narrow_numbers_are_widened_for_words_of_fp32(dtype: str) -> None:
    backend, codec = torch_backend(), Mpc(of="fp32")
    every = np.arange(2**16, dtype=np.uint16).view(np.int16)[None]
    values = backend.xp.asarray(every).view(backend.dtype(dtype))
    there = encode(backend, values, codec)
    assert there.data.numpy().tobytes() == encode(backend, values.float(), codec).data.numpy().tobytes()
    back, known = decode(backend, there, codec, 2**16, dtype), ~values.isnan()
    assert np.array_equal(back.view(backend.xp.int16)[known].numpy(), every[known.numpy()])
    assert bool(back[~known].isnan().all())


def test_zeros_behind_the_longest_stream_may_be_left_out() -> None:
    backend = numpy_backend()
    values = np.random.default_rng(5).standard_normal((4, 300), dtype=np.float32)
    there = encode(backend, values, MPC)
    longest = int(mpc.stream_bytes(there.data).max())
    cut = Encoded(there.data[:, :longest], None)
    assert np.array_equal(decode(backend, cut, MPC, 300, "fp32"), values)
    with pytest.raises(SimfrontierError, match="mpc: a stream ends 4 bytes early"):
        decode(backend, Encoded(there.data[:, : longest - 4], None), MPC, 300, "fp32")


# ── how far it shrinks ──


def bf16(values: Any) -> Any:
    """Rounded to nearest, ties to even, and widened again."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def normal() -> Any:
    return np.random.default_rng(3).standard_normal(2_100_000, dtype=np.float32)


# facts: 2.1 M numbers, dimension 1
SAMPLES: dict[str, tuple[Callable[[], Any], float]] = {
    "normal": (normal, 1.10),
    "pairs of fp16": (lambda: normal().astype(np.float16), 1.03),
    "fp16 widened": (lambda: normal().astype(np.float16).astype(np.float32), 1.89),
    "bf16 widened": (lambda: bf16(normal()), 2.29),
    "half zeros, fp16 widened": (lambda: np.maximum(normal(), 0).astype(np.float16).astype(np.float32), 1.85),
    "sine": (lambda: np.sin(1e-3 * np.arange(2_100_000)).astype(np.float32), 2.16),
    "zeros": (lambda: np.zeros(2_100_000, np.float32), 32.0),
}


@pytest.mark.parametrize(("numbers", "ratio"), SAMPLES.values(), ids=SAMPLES)
def test_ratios_are_those_measured(numbers: Callable[[], Any], ratio: float) -> None:
    values = numbers()
    there = encode(numpy_backend(), values[None], MPC)
    assert round(values.nbytes / int(mpc.stream_bytes(there.data)[0]), 2) == ratio


# ── what is refused ──


def test_numbers_of_another_type_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"codec mpc:bf16:1\.03: is for bf16 numbers, these are fp32; allowed: mpc:fp32"
    ):
        encode(numpy_backend(), np.zeros((1, 4), np.float32), Mpc(of="bf16", ratio=1.03))
    with pytest.raises(InputError, match="codec mpc: cannot take int64 numbers; allowed: fp64, fp32, fp16, bf16"):
        encode(numpy_backend(), np.zeros((1, 4), np.int64), MPC)


def test_what_is_no_stream_of_so_many_numbers_is_refused() -> None:
    backend = numpy_backend()
    there = encode(backend, np.zeros((2, 40), np.float32), MPC)
    for length, dtype in itertools.product((39, 41, 64), ("fp32", "fp64")):
        with pytest.raises(SimfrontierError, match="mpc: piece 0 starts with 0x63706d00, 0x28; a stream of"):
            decode(backend, there, MPC, length, dtype)
    with pytest.raises(SimfrontierError, match="mpc: piece 1 starts with 0x0, 0x0; a stream of 40 words starts with"):
        decode(backend, Encoded(there.data * np.array([[1], [0]], np.uint8), None), MPC, 40, "fp32")
    with pytest.raises(SimfrontierError, match="mpc: 3 words are no stream of 40 words"):
        decode(backend, Encoded(there.data[:, :12], None), MPC, 40, "fp32")
