"""mpc: the stream word for word against its four steps written out, bits that all come back, and how far it shrinks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier.core.codecs import Mpc
from simfrontier_real.ops.arrays import numpy_backend, torch_backend
from simfrontier_real.ops.codecs import decode, encode, mpc

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


# ── what is refused ──


def test_numbers_of_another_type_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"codec mpc:bf16:1\.03: is for bf16 numbers, these are fp32; allowed: mpc:fp32"
    ):
        encode(numpy_backend(), np.zeros((1, 4), np.float32), Mpc(of="bf16", ratio=1.03))
    with pytest.raises(InputError, match="codec mpc: cannot take int64 numbers; allowed: fp64, fp32, fp16, bf16"):
        encode(numpy_backend(), np.zeros((1, 4), np.int64), MPC)


def test_what_is_no_stream_of_so_many_numbers_is_refused() -> None:
    there = encode(numpy_backend(), np.zeros((2, 40), np.float32), MPC)
    with pytest.raises(SimfrontierError, match="mpc: piece 0 starts with 0x63706d00, 0x28; a stream of"):
        decode(numpy_backend(), there, MPC, 41, "fp32")
