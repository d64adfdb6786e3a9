"""Base class of codecs: encoding of a message's elements on the wire, its size in bytes, and its error."""

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

    `name` is its name for users and in the speeds of a machine. Besides `bits`, `error_bound` and the text, a family
    has (before training on real processes, the codec is validated against `error_bound`, `typical_error` and `bias`):

    names        prefixes of the texts of its codecs
    timed        names of those whose speed a machine file may give (device.codecs.NAME)

    group        number of neighbours that share a scale or an exponent: a block
    bias         the largest mean over `typical_error`, of errors or of errors times the sign of the number

    is_opaque    messages have to be decoded before they can be added: all but plain numbers
    is_measured  the size on the wire depends on the values, so that the bytes counted here are an expectation
    is_lossless  every bit is kept
    is_free      without a speed in the machine file it is as fast as memory
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
        """Number of neighbours that share a scale or an exponent."""
        return 1

    @property
    def bias(self) -> float:
        """Largest mean error over `typical_error`."""
        return BIAS

    @classmethod
    @abstractmethod
    def parse(cls, text: str, name: str, rest: str | None) -> Codec:
        """Return the codec of a text that begins with one of `names`; `rest` is the part after its first colon (None if
        there is no colon). Raises InputError."""

    @property
    @abstractmethod
    def bits(self) -> Fraction:
        """Bits per element, without scales; an expectation for a measured codec."""

    @abstractmethod
    def error_bound(self, largest: float) -> float:
        """Return the largest decoding error in a block whose largest magnitude is `largest`."""

    def typical_error(self, largest: float) -> float:
        """Return the root mean square decoding error in a block whose largest magnitude is `largest`: errors of
        rounding to nearest are uniform within +-`error_bound`, which gives this over sqrt(3)."""
        return self.error_bound(largest) / math.sqrt(3.0)

    def payload_bytes(self, elements: int) -> int:
        """Return the bytes of a message of `elements` elements, without scales."""
        bits = self.bits
        return -(-elements * bits.numerator // (8 * bits.denominator))

    def num_scales(self, elements: int) -> int:
        """Return the number of FP32 scales sent with a message."""
        return 0

    @property
    def is_quantised(self) -> bool:
        """True if scales are sent with the data."""
        return self.num_scales(1) > 0

    def scale_bytes(self, elements: int) -> int:
        """Return the bytes of the scales of a message."""
        return SCALE_BYTES * self.num_scales(elements)

    def wire_bytes(self, elements: int) -> int:
        """Return the bytes of a message, scales included."""
        return self.payload_bytes(elements) + self.scale_bytes(elements)

    def on(self, dtype: str) -> Codec:
        """Return the codec for numbers of this type. Raises InputError if it does not support them."""
        if dtype not in FLOATS:
            raise InputError(f"codec {self}: cannot take {dtype} numbers; allowed: {', '.join(FLOATS)}")
        return self

    def widened(self) -> Codec:
        """Return the codec for FP32 numbers, to which narrower ones are widened."""
        return self

    def is_exact_for(self, dtype: str) -> bool:
        """Return whether numbers of this type are decoded exactly."""
        return self.is_lossless

    @property
    def relative_error(self) -> float:
        """Largest `error_bound` relative to the largest magnitude."""
        return self.error_bound(1.0)


def decimal(text: str) -> float | None:
    """Return a number written without sign or exponent, of at most 30 digits; None for anything else."""
    return float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,20})?", text) else None
