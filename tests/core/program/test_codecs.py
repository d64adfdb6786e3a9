"""Codecs: round trip of their texts, bytes on the wire and error bounds, by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from simfrontier.core.codecs import Codec, Mpc, Plain, Quantised, Zfp, parse_codec
from simfrontier.core.dtypes import FLOATS
from simfrontier.core.program.store import digest, from_json, to_json
from tests.core.plan.grids import megatron, schedule_of

PLAIN = st.sampled_from(FLOATS).map(Plain)
BLOCKS = st.builds(Quantised, st.sampled_from(["int8", "int4"]), block=st.integers(1, 10**9))
ZFP = st.integers(9, 128).map(lambda bits: Zfp(rate=bits / 4))  # whole bits of a block of 4 values
RATIOS = st.integers(50, 3200).map(lambda hundredths: hundredths / 100)
MPC = st.builds(Mpc, of=st.sampled_from(["", *FLOATS]), ratio=st.just(0.0) | RATIOS)

# ── text ──


@given(PLAIN | BLOCKS | ZFP | MPC)
def test_every_codec_is_read_back_from_its_own_text(codec: Codec) -> None:
    assert parse_codec(str(codec)) == codec


@given(st.floats(2.25, 32.0))
def test_a_rate_is_that_of_whole_bits_of_a_block(rate: float) -> None:
    """floor(4 · rate + 0.5) bits for 4 values."""
    codec = parse_codec(f"zfp:{rate!r}")
    assert codec.block_bits == math.floor(4 * rate + 0.5)
    assert codec.rate == codec.block_bits / 4


# ── bytes ──


@pytest.mark.parametrize(
    ("text", "dtype", "elements", "num_bytes"),
    [
        # zfp: blocks of 4 values, then whole words of 64 bits
        ("zfp:8", "fp32", 1, 8),  # 1 block · 32 bits = half a word
        ("zfp:8", "fp32", 8, 8),  # 2 · 32 = 1 word
        ("zfp:8", "fp32", 9, 16),  # 3 · 32 = 1.5 words
        ("zfp:8", "fp16", 9, 16),  # not of the type
        ("zfp:8", "fp32", 1000, 1000),  # 250 · 32 = 125 words
        ("zfp:16", "fp32", 5, 16),  # 2 · 64 = 2 words
        ("zfp:24", "fp32", 9, 40),  # 3 · 96 = 288 bits = 4.5 words
        ("zfp:2.25", "fp32", 29, 16),  # 8 · 9 = 72 bits = 1.125 words
        ("zfp:32", "fp32", 3, 16),  # 1 · 128 bits: no less than a whole block
        # mpc: bits of the type over the ratio, in whole bytes
        ("mpc", "fp32", 1100, 4000),  # 4400 / 1.10
        ("mpc", "fp16", 1030, 2000),  # 2060 / 1.03
        ("mpc", "bf16", 1030, 2000),
        ("mpc", "fp64", 10, 80),
        ("mpc:fp32", "fp16", 1890, 4000),  # 7560 / 1.89, widened
        ("mpc:fp32", "bf16", 2290, 4000),
        ("mpc:fp32:1.5", "fp32", 2, 6),  # 8 / 1.5 = 5.33
        ("mpc:0.5", "fp16", 3, 12),  # 6 / 0.5: data that grow
        # the rest as ever
        ("fp32", "fp16", 3, 12),
        ("int4:64", "fp16", 65, 33 + 2 * 4),
    ],
)
def test_bytes_on_the_wire_by_hand(text: str, dtype: str, elements: int, num_bytes: int) -> None:
    assert parse_codec(text).on(dtype).wire_bytes(elements) == num_bytes


@given(ZFP, st.integers(1, 10**9))
def test_zfp_sends_whole_words_and_less_than_one_too_many(codec: Codec, elements: int) -> None:
    bits = -(-elements // 4) * math.floor(4 * codec.rate + 0.5)
    num_bytes = codec.wire_bytes(elements)
    assert num_bytes % 8 == 0 and bits <= 8 * num_bytes < bits + 64
    assert codec.bits == Fraction(codec.block_bits, 4) and codec.scale_bytes(elements) == 0


# ── errors ──


@pytest.mark.parametrize(("rate", "bound"), [(8, 0.625), (16, 2.44140625e-3), (24, 9.5367431640625e-6)])
def test_bounds_of_zfp_by_hand(rate: int, bound: float) -> None:
    """20 · 2^(3 - 8) = 20 / 32; 20 / 2^13 = 0.0024; 20 / 2^21 = 9.5e-6, times the power of two at or below the largest
    value."""
    codec = parse_codec(f"zfp:{rate}")
    assert codec.relative_error == codec.error_bound(1.0) == codec.error_bound(1.99) == bound
    assert codec.error_bound(2.0) == codec.error_bound(3.9) == 2 * bound
    assert codec.error_bound(0.99) == bound / 2


@given(ZFP, ZFP, st.floats(2.0**-98, 1e30))
def test_more_bits_are_never_worse(one: Codec, other: Codec, largest: float) -> None:
    worse, better = sorted((one, other), key=lambda codec: codec.rate)
    assert worse.error_bound(largest) >= better.error_bound(largest) > 0.0
    assert worse.rate < 6.0 or worse.rate == better.rate or worse.error_bound(largest) > better.error_bound(largest)


# ── stored ──


@pytest.mark.parametrize("codec", ["zfp:2.25", "mpc:fp16:1.2", "int8:64", "fp32"])
def test_a_schedule_with_a_codec_is_read_back_as_it_was(codec: str) -> None:
    dimensions = ("dp", "pp", "zero") if ":fp16" in codec else ("dp", "tp", "pp", "zero")  # sums of losses are in fp32
    policy = ", ".join(f"{dimension}={codec}" for dimension in dimensions)
    options = megatron(2, 2, data="zero1", compression=policy, compress_from=0, compress_per_hop=True)
    schedule = schedule_of(options, 8, micros=2, precision="fp16")
    text = to_json(schedule)
    again = from_json(text, "stored")
    assert digest(again) == digest(schedule) and to_json(again) == text
    assert again.tensors == schedule.tensors and again.roles == schedule.roles
    assert f'"{parse_codec(codec).on("fp16")}"' in text
    assert ('"per_hop"' in text) is (codec != "fp32")
