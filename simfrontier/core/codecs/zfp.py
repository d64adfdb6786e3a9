"""zfp at a fixed rate: blocks of 4 numbers with a common exponent (LLNL/zfp)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Final

from simfrontier.base.errors import InputError
from simfrontier.core.codecs.codec import BIAS, Codec, decimal

BLOCK: Final = 4  # values of a block of one dimension (LLNL/zfp, algorithm)
_WORD_BYTES: Final = 8  # a stream ends with a whole word of 64 bits (LLNL/zfp, stream_flush)
_RATES: Final = (2.25, 32.0)  # bits per value: room for the exponent, and all of a float
_LEAST: Final = 2.0**-98
_SAFE_RATE: Final = 6.0
_TYPICAL, _TYPICAL_BELOW_SAFE = 12.1, 13.4
"""Root mean square of errors, in 2^-rate * 2^floor(log2 largest), from and below 6 bits per value: measured with zfp
1.0 on normal numbers (5 times 16,384), 11.6 to 12.9 and 4.1 to 13.4; less from 30 on, where fp32 has no more bits."""
_BIASED_BELOW: Final = 4.0  # bits per value, below which most of a block is cut off (mean error up to 0.88 of typical)
_RATE_OF: Final = {"zfp8": "8", "zfp16": "16", "zfp24": "24"}
NAMES: Final = ("zfp", *_RATE_OF)
TIMED: Final = ("zfp",)


@dataclass(frozen=True, slots=True)
class Zfp(Codec):
    """A fixed `rate`, in bits per value, of blocks of 4 values. Types wider than fp32 are refused, narrower ones
    widened first."""

    rate: float
    name: str = field(default="zfp", init=False)
    family: ClassVar[str] = "zfp"
    is_bounded: ClassVar[bool] = False

    @property
    def group(self) -> int:
        """A block."""
        return BLOCK

    @property
    def bias(self) -> float:
        """That of all codecs; 1 where bits are so few that numbers shrink."""
        return 1.0 if self.rate < _BIASED_BELOW else BIAS

    @property
    def block_bits(self) -> int:
        """Bits of a block of 4 values (LLNL/zfp, zfp_stream_set_rate)."""
        return math.floor(BLOCK * self.rate + 0.5)

    @property
    def bits(self) -> Fraction:
        """Bits of a value: whole ones of its block."""
        return Fraction(self.block_bits, BLOCK)

    def payload_bytes(self, elements: int) -> int:
        """Whole blocks in whole words of 64 bits."""
        bits = -(-elements // BLOCK) * self.block_bits
        return _WORD_BYTES * -(-bits // (8 * _WORD_BYTES))

    def on(self, dtype: str) -> Codec:
        """The codec itself, for fp32 and narrower numbers. Raises InputError."""
        if dtype == "fp64":
            raise InputError(f"codec {self}: cannot take fp64 numbers; allowed: fp32, and fp16 or bf16 widened to it")
        return Codec.on(self, dtype)

    def error_bound(self, largest: float) -> float:
        """From 6 bits per value on 20 * 2^(3 - rate) * 2^floor(log2 largest), of the documented bound of fixed
        precision (zfp.readthedocs.io, FAQ) and the coder's budget; below, where what is decoded may overflow its
        integers, 6 * 2^floor(log2 largest); `largest` itself below 2^-98, which is sent as zeros, because zfp's scale
        would be infinite."""
        if largest < _LEAST:
            return largest
        units = 20.0 * math.exp2(3.0 - self.rate) if self.rate >= _SAFE_RATE else 6.0
        return math.ldexp(units, math.frexp(largest)[1] - 1)

    def typical_error(self, largest: float) -> float:
        """12.1 (13.4 below 6 bits per value) * 2^-rate * 2^floor(log2 largest), as measured: what is left of bit planes
        that are cut off is not spread evenly."""
        if largest < _LEAST:
            return largest
        units = _TYPICAL if self.rate >= _SAFE_RATE else _TYPICAL_BELOW_SAFE
        return math.ldexp(units * math.exp2(-self.rate), math.frexp(largest)[1] - 1)

    def __str__(self) -> str:
        return f"zfp:{self.rate:g}"


def parse(text: str, name: str, rest: str | None) -> Codec:
    """`zfp:RATE` in bits per value (`zfp8`, `zfp16`, `zfp24` for short). Raises InputError."""
    if name in _RATE_OF:
        if rest is not None:
            raise InputError(f"codec {text!r}: {name} takes no rate; write {name}, or zfp:RATE")
        rest = _RATE_OF[name]
    least, most = _RATES
    number = decimal(rest or "")
    if number is None or not least <= number <= most:
        raise InputError(f"codec {text!r}: write zfp:RATE with {least:g} to {most:g} bits per value, e.g. zfp:16")
    return Zfp(math.floor(BLOCK * number + 0.5) / BLOCK)  # whole bits per block
