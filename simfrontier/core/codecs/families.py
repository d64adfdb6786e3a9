"""The families of codecs: blocks with a common scale, lossless compression of words, plain numbers, and blocks with a
common exponent."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, Final

from simfrontier.base.errors import InputError, nearest
from simfrontier.core.codecs.codec import BIAS, Codec, decimal
from simfrontier.core.dtypes import DTYPE_BYTES, FLOATS, INTEGERS

# ── mpc: lossless, on 32-bit words (Yang et al., Pricing 2015); how far numbers shrink depends on them ──

WORD_BYTES: Final = 4
_RATIOS: Final = {"fp32": 1.10, "fp16": 1.03, "bf16": 1.03, "fp64": 1.0}
_WIDENED_RATIOS: Final = {"fp16": 1.89, "bf16": 2.29}
"""Size before over size after, by default, by type of the numbers: of a normal distribution, measured
with an implementation of Yang et al. (Pricing 2015) on 2.1 M of them. 16-bit ones are read in pairs as words (bf16 is
assumed to do as fp16, fp64 not to shrink), or are widened to fp32 first, before which their size is counted."""
_LEAST_RATIO, _LARGEST_RATIO = 0.5, 32.0


@dataclass(frozen=True, slots=True)
class Mpc(Codec):
    """Lossless compression of numbers of the type `of` ("": any type); numbers of narrower types are widened first.
    `ratio` is the compression ratio (size before over size after) that a schedule assumes (0: the default ratio of the
    type)."""

    ratio: float = 0.0
    of: str = ""
    name: str = field(default="mpc", init=False)
    family: ClassVar[str] = "mpc"
    names: ClassVar[tuple[str, ...]] = ("mpc",)
    timed: ClassVar[tuple[str, ...]] = ("mpc",)
    is_measured: ClassVar[bool] = True
    is_lossless: ClassVar[bool] = True

    @property
    def bits(self) -> Fraction:
        """Bits per number at the assumed compression ratio."""
        of = self.of or "fp32"
        return 8 * DTYPE_BYTES[of] / Fraction(str(self.ratio or _RATIOS[of]))

    def on(self, dtype: str) -> Codec:
        """Return the codec with `of` set to the type `dtype` and `ratio` to the compression ratio. Raises
        InputError."""
        Codec.on(self, dtype)
        if self.of == "fp32" and dtype in _WIDENED_RATIOS:
            return replace(self, ratio=self.ratio or _WIDENED_RATIOS[dtype])
        if self.of not in ("", dtype):
            raise InputError(f"codec {self}: is for {self.of} numbers, these are {dtype}; allowed: mpc:{dtype}")
        return replace(self, of=dtype, ratio=self.ratio or _RATIOS[dtype])

    def widened(self) -> Codec:
        """Return the codec for FP32 numbers if the codec has no type yet; otherwise the codec itself."""
        return self if self.of else replace(self, of="fp32")

    def error_bound(self, largest: float) -> float:
        """Return 0: the codec is lossless."""
        return 0.0

    def __str__(self) -> str:
        return ":".join(["mpc", *([self.of] if self.of else []), *([f"{self.ratio:g}"] if self.ratio else [])])

    @classmethod
    def parse(cls, text: str, name: str, rest: str | None) -> Codec:
        """Parse `mpc`, `mpc:TYPE`, `mpc:RATIO` or `mpc:TYPE:RATIO`. Raises InputError."""
        if rest is None:
            return Mpc()
        first, colon, second = rest.partition(":")
        of, ratio = (first, second if colon else None) if first in FLOATS else ("", rest)
        number = 0.0 if ratio is None else decimal(ratio)
        if number is None or (ratio is not None and not _LEAST_RATIO <= number <= _LARGEST_RATIO):
            raise InputError(
                f"codec {text!r}: write mpc, or mpc:TYPE:RATIO with TYPE one of {', '.join(FLOATS)} and a RATIO (size "
                "before over after) of 0.5 to 32, e.g. mpc:fp32:1.1"
            )
        return Mpc(of=of, ratio=float(f"{number:g}"))


# ── plain numbers: fp64, fp32, fp16, bf16; a message in a narrower type is cast. Integers are sent as they are ──

_MANTISSA: Final = {"fp64": 53, "fp32": 24, "fp16": 11, "bf16": 8}  # significant bits


@dataclass(frozen=True, slots=True)
class Plain(Codec):
    """Unencoded numbers of the type `name`."""

    name: str
    family: ClassVar[str] = "plain"
    names: ClassVar[tuple[str, ...]] = FLOATS
    is_opaque: ClassVar[bool] = False

    @property
    def bits(self) -> Fraction:
        """Bits per number of the type."""
        return Fraction(8 * DTYPE_BYTES[self.name])

    def payload_bytes(self, elements: int) -> int:
        """Return the bytes of unencoded numbers."""
        return elements * DTYPE_BYTES[self.name]

    def error_bound(self, largest: float) -> float:
        """Return half a unit in the last place, in the type's normal range: 2^(floor(log2 largest) - significant
        bits)."""
        return math.ldexp(1.0, math.frexp(largest)[1] - 1 - _MANTISSA[self.name]) if largest else 0.0

    def is_exact_for(self, dtype: str) -> bool:
        """Return whether the type `dtype` is the codec's own type."""
        return self.name == dtype

    def __str__(self) -> str:
        return self.name

    @classmethod
    def parse(cls, text: str, name: str, rest: str | None) -> Codec:
        """Parse the name of a type, without parameters. Raises InputError."""
        if rest is not None:
            raise InputError(f"codec {text!r}: {name} takes no block size")
        return Plain(name)


# ── int8 and int4: blocks of numbers as multiples of one FP32 scale each (ZeRO++, arXiv 2306.10209) ──

_BITS: Final = {"int8": 8, "int4": 4}
_MAX_DIGITS: Final = 12  # of a number of elements


@dataclass(frozen=True, slots=True)
class Quantised(Codec):
    """Numbers quantised to integers; `block` elements share one FP32 scale."""

    name: str
    block: int
    family: ClassVar[str] = "quantised"
    names: ClassVar[tuple[str, ...]] = tuple(_BITS)
    timed: ClassVar[tuple[str, ...]] = tuple(_BITS)
    is_free: ClassVar[bool] = True

    @property
    def bits(self) -> Fraction:
        """Bits per quantised element."""
        return Fraction(_BITS[self.name])

    @property
    def group(self) -> int:
        """Number of elements per block."""
        return self.block

    def num_scales(self, elements: int) -> int:
        """Return the number of blocks, including a partial last block."""
        return -(-elements // self.block)

    def error_bound(self, largest: float) -> float:
        """Return half a quantisation step; the two FP32 roundings (2^-22 of `largest`, and 2^-150) are not included."""
        return largest / float(2 * (2 ** (_BITS[self.name] - 1) - 1))

    def __str__(self) -> str:
        return f"{self.name}:{self.block}"

    @classmethod
    def parse(cls, text: str, name: str, rest: str | None) -> Codec:
        """Parse `int8:BLOCK` or `int4:BLOCK`, with the block in elements. Raises InputError."""
        if rest is None or not rest.isdecimal() or len(rest) > _MAX_DIGITS or int(rest) < 1:
            raise InputError(f"codec {text!r}: write {name}:BLOCK with BLOCK elements per scale, e.g. {name}:6144")
        return Quantised(name, int(rest))


# ── zfp at a fixed rate: blocks of 4 numbers with a common exponent (LLNL/zfp) ──

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


@dataclass(frozen=True, slots=True)
class Zfp(Codec):
    """ZFP compression at a fixed `rate`, in bits per value, in blocks of 4 values. Types wider than FP32 are refused;
    numbers of narrower types are widened first."""

    rate: float
    name: str = field(default="zfp", init=False)
    family: ClassVar[str] = "zfp"
    names: ClassVar[tuple[str, ...]] = ("zfp", *_RATE_OF)
    timed: ClassVar[tuple[str, ...]] = ("zfp",)
    is_bounded: ClassVar[bool] = False

    @property
    def group(self) -> int:
        """Number of values per block."""
        return BLOCK

    @property
    def bias(self) -> float:
        """Default bias of codecs; 1 at rates so low that the magnitudes of numbers shrink."""
        return 1.0 if self.rate < _BIASED_BELOW else BIAS

    @property
    def block_bits(self) -> int:
        """Bits of a block of 4 values (LLNL/zfp, zfp_stream_set_rate)."""
        return math.floor(BLOCK * self.rate + 0.5)

    @property
    def bits(self) -> Fraction:
        """Bits per value; each block has a whole number of bits."""
        return Fraction(self.block_bits, BLOCK)

    def payload_bytes(self, elements: int) -> int:
        """Return the bytes of all blocks, rounded up to whole 64-bit words."""
        bits = -(-elements // BLOCK) * self.block_bits
        return _WORD_BYTES * -(-bits // (8 * _WORD_BYTES))

    def on(self, dtype: str) -> Codec:
        """Return the codec itself for FP32 and narrower types. Raises InputError for wider types."""
        if dtype == "fp64":
            raise InputError(f"codec {self}: cannot take fp64 numbers; allowed: fp32, and fp16 or bf16 widened to it")
        return Codec.on(self, dtype)

    def error_bound(self, largest: float) -> float:
        """Return the error bound, which depends on the rate. From 6 bits per value on, it is 20 * 2^(3 - rate) *
        2^floor(log2 largest), from the documented bound of fixed precision (zfp.readthedocs.io, FAQ) and the coder's
        bit budget. At lower rates, where decoded values may overflow ZFP's integers, it is 6 * 2^floor(log2 largest).
        If `largest` is below 2^-98, the bound is `largest` itself: the block is sent as zeros, because ZFP's scale
        would be infinite."""
        if largest < _LEAST:
            return largest
        units = 20.0 * math.exp2(3.0 - self.rate) if self.rate >= _SAFE_RATE else 6.0
        return math.ldexp(units, math.frexp(largest)[1] - 1)

    def typical_error(self, largest: float) -> float:
        """Return 12.1 (13.4 below 6 bits per value) * 2^-rate * 2^floor(log2 largest), as measured: the errors of
        truncated bit planes are not uniform."""
        if largest < _LEAST:
            return largest
        units = _TYPICAL if self.rate >= _SAFE_RATE else _TYPICAL_BELOW_SAFE
        return math.ldexp(units * math.exp2(-self.rate), math.frexp(largest)[1] - 1)

    def __str__(self) -> str:
        return f"zfp:{self.rate:g}"

    @classmethod
    def parse(cls, text: str, name: str, rest: str | None) -> Codec:
        """Parse `zfp:RATE` in bits per value (`zfp8`, `zfp16`, `zfp24` for short). Raises InputError."""
        if name in _RATE_OF:
            if rest is not None:
                raise InputError(f"codec {text!r}: {name} takes no rate; write {name}, or zfp:RATE")
            rest = _RATE_OF[name]
        least, most = _RATES
        number = decimal(rest or "")
        if number is None or not least <= number <= most:
            raise InputError(f"codec {text!r}: write zfp:RATE with {least:g} to {most:g} bits per value, e.g. zfp:16")
        return Zfp(math.floor(BLOCK * number + 0.5) / BLOCK)  # whole bits per block


# ── by name ──

FAMILIES: Final[tuple[type[Codec], ...]] = (Mpc, Plain, Quantised, Zfp)
FAMILY_OF: Final = {name: family for family in FAMILIES for name in family.names}


def timed_codecs() -> tuple[str, ...]:
    """Return the names of the codecs whose speeds may be given in a machine file."""
    return tuple(name for family in FAMILIES for name in family.timed)


def parse_codec(text: str) -> Codec:
    """Return the codec that a text describes, such as `fp16`, `int8:6144`, `zfp:16` or `mpc`: a name, and after a colon
    the parameters of its family. Raises InputError."""
    name, colon, rest = text.partition(":")
    if name not in FAMILY_OF:
        raise InputError(f"codec {text!r}: {nearest(name, tuple(FAMILY_OF))}")
    return FAMILY_OF[name].parse(text, name, rest if colon else None)


def wire_codec(text: str) -> Codec:
    """Return the codec of a message that may be of integers, which are sent as they are. Raises InputError."""
    return Plain(text) if text in INTEGERS else parse_codec(text)
