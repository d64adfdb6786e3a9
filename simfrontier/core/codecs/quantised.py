"""int8 and int4: blocks of numbers as multiples of one FP32 scale each (ZeRO++, arXiv 2306.10209)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final

from simfrontier.base.errors import InputError
from simfrontier.core.codecs.codec import Codec

_BITS: Final = {"int8": 8, "int4": 4}
NAMES: Final = tuple(_BITS)
TIMED: Final = NAMES
_MAX_DIGITS: Final = 12  # of a number of elements


@dataclass(frozen=True, slots=True)
class Quantised(Codec):
    """`block` elements share one FP32 scale."""

    name: str
    block: int
    family: ClassVar[str] = "quantised"
    is_free: ClassVar[bool] = True

    @property
    def bits(self) -> Fraction:
        """Bits of a level."""
        return Fraction(_BITS[self.name])

    @property
    def group(self) -> int:
        """A block."""
        return self.block

    def num_scales(self, elements: int) -> int:
        """One for every block that is begun."""
        return -(-elements // self.block)

    def error_bound(self, largest: float) -> float:
        """Half a scale, beside two roundings of fp32 (2^-22 of `largest`, and 2^-150)."""
        return largest / float(2 * (2 ** (_BITS[self.name] - 1) - 1))

    def __str__(self) -> str:
        return f"{self.name}:{self.block}"


def parse(text: str, name: str, rest: str | None) -> Codec:
    """`int8:BLOCK`, `int4:BLOCK` with the block in elements. Raises InputError."""
    if rest is None or not rest.isdecimal() or len(rest) > _MAX_DIGITS or int(rest) < 1:
        raise InputError(f"codec {text!r}: write {name}:BLOCK with BLOCK elements per scale, e.g. {name}:6144")
    return Quantised(name, int(rest))
