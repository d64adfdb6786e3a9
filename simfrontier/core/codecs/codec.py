"""What a codec is: how the elements of a message are written on the wire, at how many bytes, and what of them is
lost."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar, Final

from simfrontier.base.errors import InputError
from simfrontier.core.dtypes import FLOATS

SCALE_BYTES: Final = 4  # one FP32 scale per block (DeepSpeed 0.16.5, csrc/quantization)

BIAS: Final = 0.25
"""Mean error over the typical one that is no fault. Normal numbers are denser at the lower end of a step, so that
rounding to the nearest makes them larger on average: by up to 0.13 (int4 in blocks of thousands)."""


class Codec(ABC):
    """A wire format: a frozen value whose class is its family.

    `name` is its name for users and in the speeds of a machine. Beside `bits`, `error_bound` and the text, a family
    has (training on real processes is preceded by a comparison of the codec with `error_bound`, `typical_error` and
    `bias`):

    names        what its codecs' texts may begin with
    timed        names of those whose speed a machine's file may have (device.codecs.NAME)

    group        neighbours that share a scale or an exponent: a block
    bias         the largest mean error, over `typical_error`: with the numbers' sign, or without

    is_opaque    messages have to be decoded before they can be added up: all but plain numbers
    is_measured  the bytes on the wire depend on the values, so that those counted here are an expectation
    is_lossless  every bit is kept
    is_free      without a speed in the machine's file it is as fast as memory
    is_bounded   numbers at the top of their type's range stay within it
    """

    __slots__ = ()

    name: str
    family: ClassVar[str]
    names: ClassVar[tuple[str, ...]]
    timed: ClassVar[tuple[str, ...]] = ()
    is_opaque: ClassVar[bool] = True
    is_measured: ClassVar[bool] = False
    is_lossless: ClassVar[bool] = False
    is_free: ClassVar[bool] = False
    is_bounded: ClassVar[bool] = True

    @property
    def group(self) -> int:
        """Neighbours that share a scale or an exponent."""
        return 1

    @property
    def bias(self) -> float:
        """The largest mean error, over `typical_error`."""
        return BIAS

    @classmethod
    @abstractmethod
    def parse(cls, text: str, name: str, rest: str | None) -> Codec:
        """Return the codec of a text that begins with one of `names`; `rest` is what follows its first colon (None:
        there is none). Raises InputError."""

    @property
    @abstractmethod
    def bits(self) -> Fraction:
        """Bits per element, without scales; of a measured codec an expectation."""

    @abstractmethod
    def error_bound(self, largest: float) -> float:
        """What decoding may be off by at most, in a block whose largest magnitude is `largest`."""

    def typical_error(self, largest: float) -> float:
        """Root mean square of what decoding is off by, in a block whose largest magnitude is `largest`: errors of
        rounding to the nearest lie evenly within +-`error_bound`, which gives this over sqrt(3)."""
        return self.error_bound(largest) / math.sqrt(3.0)

    def payload_bytes(self, elements: int) -> int:
        """Bytes of a piece of so many elements, without scales."""
        bits = self.bits
        return -(-elements * bits.numerator // (8 * bits.denominator))

    def num_scales(self, elements: int) -> int:
        """FP32 scales that travel beside a piece."""
        return 0

    @property
    def is_quantised(self) -> bool:
        """Whether scales travel beside the data."""
        return self.num_scales(1) > 0

    def scale_bytes(self, elements: int) -> int:
        """Bytes of the scales of a piece."""
        return SCALE_BYTES * self.num_scales(elements)

    def wire_bytes(self, elements: int) -> int:
        """Bytes of a piece, scales included."""
        return self.payload_bytes(elements) + self.scale_bytes(elements)

    def on(self, dtype: str) -> Codec:
        """The codec as it is for numbers of that type. Raises InputError where it cannot take them."""
        if dtype not in FLOATS:
            raise InputError(f"codec {self}: cannot take {dtype} numbers; allowed: {', '.join(FLOATS)}")
        return self

    def widened(self) -> Codec:
        """The codec as it is for FP32 numbers, to which narrower ones are widened."""
        return self

    def is_exact_for(self, dtype: str) -> bool:
        """Whether numbers of that type come back as they were."""
        return self.is_lossless

    @property
    def relative_error(self) -> float:
        """`error_bound` over the largest magnitude, at its worst."""
        return self.error_bound(1.0)


def decimal(text: str) -> float | None:
    """A number without sign or exponent, of at most 30 digits; None for anything else."""
    return float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,20})?", text) else None
