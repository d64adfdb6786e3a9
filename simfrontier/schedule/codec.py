"""Codecs: how the elements of a message are written on the wire, in how many messages, at how many bytes, and what of
the values they lose."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Final

from simfrontier.errors import InputError, nearest

_BITS: Final = {"fp64": 64, "fp32": 32, "fp16": 16, "bf16": 16, "int8": 8, "int4": 4}
_BLOCKED: Final = ("int8", "int4")
MAX_DIGITS: Final = 12  # of a number of elements
_SCALE_BYTES: Final = 4  # one FP32 scale per block (DeepSpeed 0.16.5, csrc/quantization)
DTYPE_BYTES: Final = {
    "fp64": 8,
    "fp32": 4,
    "fp16": 2,
    "bf16": 2,
    "int64": 8,
    "uint8": 1,
    "token": 0,
    "moments": 8,  # Adam's two of one element, in fp32
    "moments64": 16,  # and in fp64
}
FLOATS: Final = ("fp64", "fp32", "fp16", "bf16")
INTEGERS: Final = ("int64", "uint8")  # sent as they are
_MANTISSA: Final = {"fp64": 53, "fp32": 24, "fp16": 11, "bf16": 8}  # significant bits

ZFP_BLOCK: Final = 4  # values of a block of one dimension (LLNL/zfp, algorithm)
ZFP_WORD_BYTES: Final = 8  # a stream ends with a whole word of 64 bits (LLNL/zfp, stream_flush)
ZFP_RATES: Final = (2.25, 32.0)  # bits per value: room for the exponent, and all of a float
_ZFP_LEAST: Final = 2.0**-98
_ZFP_SAFE_RATE: Final = 6.0
_ZFP_NAMED: Final = {"zfp8": "zfp:8", "zfp16": "zfp:16", "zfp24": "zfp:24"}
MPC_WORD_BYTES: Final = 4
MPC_RATIOS: Final = {"fp32": 1.10, "fp16": 1.03, "bf16": 1.03, "fp64": 1.0}
MPC_WIDENED_RATIOS: Final = {"fp16": 1.89, "bf16": 2.29}
"""Size before over size after, where nothing else is said, by type of the numbers: of a normal distribution, measured
with an implementation of Yang et al. (Cluster 2015) on 2.1 M of them. 16-bit ones are read in pairs as words (bf16 is
assumed to do as fp16, fp64 not to shrink), or are widened to fp32 first, before which their size is counted."""
NAMES: Final = (*_BITS, "zfp", "mpc", *_ZFP_NAMED)


@dataclass(frozen=True, slots=True)
class Codec:
    """A wire format.

    int8, int4: `block` elements share one FP32 scale. zfp: fixed `rate`, in bits per value, of blocks of 4 values
    (wider types than fp32 are refused, narrower ones widened first). mpc: lossless on 32-bit words of numbers of type
    `of`, to which narrower ones are widened; its size depends on the data, so a schedule says by which `ratio` (before
    over after) it is taken to shrink.
    """

    name: str
    block: int = 0
    rate: float = 0.0
    ratio: float = 0.0
    of: str = ""

    @property
    def is_quantised(self) -> bool:
        """Whether scales travel beside the data."""
        return self.block > 0

    @property
    def is_opaque(self) -> bool:
        """Whether messages have to be decoded before they can be added up: all but plain numbers."""
        return self.name not in (*FLOATS, *INTEGERS)

    @property
    def is_measured(self) -> bool:
        """Whether the bytes on the wire depend on the values, so that those counted here are an expectation."""
        return self.name == "mpc"

    @property
    def bits(self) -> Fraction:
        """Bits per element, without scales; of a measured codec as its ratio says."""
        return _bits(self)

    @property
    def block_bits(self) -> int:
        """zfp: bits of a block of 4 values (LLNL/zfp, zfp_stream_set_rate)."""
        return math.floor(ZFP_BLOCK * self.rate + 0.5)

    def payload_bytes(self, elements: int) -> int:
        """Bytes of a piece of so many elements, without scales."""
        if self.name == "zfp":
            bits = -(-elements // ZFP_BLOCK) * self.block_bits
            return ZFP_WORD_BYTES * -(-bits // (8 * ZFP_WORD_BYTES))
        return math.ceil(elements * self.bits / 8)

    def scale_bytes(self, elements: int) -> int:
        """Bytes of the scales of a piece."""
        return _SCALE_BYTES * -(-elements // self.block) if self.is_quantised else 0

    def wire_bytes(self, elements: int) -> int:
        """Bytes of a piece, scales included."""
        return self.payload_bytes(elements) + self.scale_bytes(elements)

    def on(self, dtype: str) -> Codec:
        """The codec as it is for numbers of that type: mpc says which they are. Raises InputError where it cannot take
        them."""
        if dtype not in FLOATS:
            raise InputError(f"codec {self}: cannot take {dtype} numbers; allowed: {', '.join(FLOATS)}")
        if self.name == "zfp" and dtype == "fp64":
            raise InputError(f"codec {self}: cannot take fp64 numbers; allowed: fp32, and fp16 or bf16 widened to it")
        if self.name != "mpc":
            return self
        if self.of == "fp32" and dtype in MPC_WIDENED_RATIOS:
            return replace(self, ratio=self.ratio or MPC_WIDENED_RATIOS[dtype])
        if self.of not in ("", dtype):
            raise InputError(f"codec {self}: is for {self.of} numbers, these are {dtype}; allowed: mpc:{dtype}")
        return replace(self, of=dtype, ratio=self.ratio or MPC_RATIOS[dtype])

    def error_bound(self, largest: float) -> float:
        """What decoding may be off by at most, in a block whose largest magnitude is `largest`.

        Plain numbers: half a unit in the last place, in the type's normal range. int8, int4: half a scale, beside two
        roundings of fp32 (2^-22 of `largest`, and 2^-150). zfp: from 6 bits per value on 20 * 2^(3 - rate) *
        2^floor(log2 largest), of the documented bound of fixed precision (zfp.readthedocs.io, FAQ) and the coder's
        budget; below, where what is decoded may overflow its integers, 6 * 2^floor(log2 largest); `largest` itself
        below 2^-98, which is sent as zeros, because zfp's scale would be infinite. mpc: 0.
        """
        if self.name == "mpc" or largest == 0.0:
            return 0.0
        if self.name == "zfp":
            if largest < _ZFP_LEAST:
                return largest
            units = 20.0 * math.exp2(3.0 - self.rate) if self.rate >= _ZFP_SAFE_RATE else 6.0
            return math.ldexp(units, math.frexp(largest)[1] - 1)
        if self.is_quantised:
            return largest / float(2 * (2 ** (_BITS[self.name] - 1) - 1))
        return math.ldexp(largest, -_MANTISSA[self.name])

    @property
    def relative_error(self) -> float:
        """`error_bound` over the largest magnitude, at its worst."""
        return self.error_bound(1.0)

    def __str__(self) -> str:
        if self.is_quantised:
            return f"{self.name}:{self.block}"
        if self.name == "zfp":
            return f"zfp:{self.rate:g}"
        if self.name == "mpc":
            return ":".join(["mpc", *([self.of] if self.of else []), *([f"{self.ratio:g}"] if self.ratio else [])])
        return self.name


@cache
def _bits(codec: Codec) -> Fraction:
    if codec.name == "zfp":
        return Fraction(codec.block_bits, ZFP_BLOCK)
    if codec.name == "mpc":
        of = codec.of or "fp32"
        return 8 * DTYPE_BYTES[of] / Fraction(str(codec.ratio or MPC_RATIOS[of]))
    if codec.name in INTEGERS:
        return Fraction(8 * DTYPE_BYTES[codec.name])
    return Fraction(_BITS[codec.name])


def parse_codec(text: str) -> Codec:
    """`fp64`, `fp32`, `fp16`, `bf16`; `int8:BLOCK`, `int4:BLOCK` with the block in elements; `zfp:RATE` in bits per
    value (`zfp8`, `zfp16`, `zfp24` for short); `mpc`, `mpc:TYPE`, `mpc:RATIO` or `mpc:TYPE:RATIO`. Raises
    InputError."""
    name, colon, rest = _ZFP_NAMED.get(text, text).partition(":")
    if name not in NAMES:
        raise InputError(f"codec {text!r}: {nearest(name, NAMES)}")
    if name in _ZFP_NAMED:
        raise InputError(f"codec {text!r}: {name} takes no rate; write {name}, or zfp:RATE")
    if name == "zfp":
        return _zfp(text, rest)
    if name == "mpc":
        return _mpc(text, rest if colon else None)
    if name not in _BLOCKED:
        if colon:
            raise InputError(f"codec {text!r}: {name} takes no block size")
        return Codec(name)
    if not rest.isdecimal() or len(rest) > MAX_DIGITS or int(rest) < 1:
        raise InputError(f"codec {text!r}: write {name}:BLOCK with BLOCK elements per scale, e.g. {name}:6144")
    return Codec(name, int(rest))


def _zfp(text: str, rate: str) -> Codec:
    least, most = ZFP_RATES
    number = _number(rate)
    if number is None or not least <= number <= most:
        raise InputError(f"codec {text!r}: write zfp:RATE with {least:g} to {most:g} bits per value, e.g. zfp:16")
    return Codec("zfp", rate=math.floor(ZFP_BLOCK * number + 0.5) / ZFP_BLOCK)  # whole bits per block


def _mpc(text: str, rest: str | None) -> Codec:
    if rest is None:
        return Codec("mpc")
    first, colon, second = rest.partition(":")
    of, ratio = (first, second if colon else None) if first in FLOATS else ("", rest)
    number = 0.0 if ratio is None else _number(ratio)
    if number is None or (ratio is not None and not 0.5 <= number <= 32.0):
        raise InputError(
            f"codec {text!r}: write mpc, or mpc:TYPE:RATIO with TYPE one of {', '.join(FLOATS)} and a RATIO (size "
            "before over after) of 0.5 to 32, e.g. mpc:fp32:1.1"
        )
    return Codec("mpc", of=of, ratio=float(f"{number:g}"))


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,20})?", text) else None
