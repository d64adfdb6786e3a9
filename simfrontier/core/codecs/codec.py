"""Base class of codecs: the encoding of a message's elements on the wire, the encoded size in bytes, and the error."""

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
    """A wire format; each family of codecs is a frozen subclass.

    `name` is the codec's name for users and in the machine file's list of speeds. Besides `bits`, `error_bound` and the
    text form, a family defines the following (before training on real processes, the codec is validated against
    `error_bound`, `typical_error` and `bias`):

    names        prefixes of the texts that describe codecs of the family
    timed        names of the codecs whose speed a machine file may give (device.codecs.NAME)

    group        number of neighbouring elements that share a scale or an exponent: a block
    bias         upper bound on two means divided by `typical_error`: of errors, and of errors times the number's sign

    is_opaque    messages have to be decoded before they can be added: true for all but plain numbers
    is_measured  the size on the wire depends on the values, so the bytes counted here are an expectation
    is_lossless  every bit is preserved
    is_free      without a speed in the machine file, the codec is as fast as memory
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
        """Number of neighbouring elements that share a scale or an exponent."""
        return 1

    @property
    def bias(self) -> float:
        """Largest mean error divided by `typical_error`."""
        return BIAS

    @classmethod
    @abstractmethod
    def parse(cls, text: str, name: str, rest: str | None) -> Codec:
        """Return the codec that a text describes; the text begins with `name`, one of the family's `names`, and `rest`
        is the part after the first colon (None if there is no colon). Raises InputError for an invalid text."""

    @property
    @abstractmethod
    def bits(self) -> Fraction:
        """Bits per element, without scales; an expected value if the size depends on the data."""

    @abstractmethod
    def error_bound(self, largest: float) -> float:
        """Return the largest decoding error in a block whose largest magnitude is `largest`."""

    def typical_error(self, largest: float) -> float:
        """Return the root mean square decoding error in a block whose largest magnitude is `largest`: `error_bound` /
        sqrt(3), because the errors of rounding to nearest are uniform within +-`error_bound`."""
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
        """Return the codec for numbers of the type `dtype`. Raises InputError if the codec does not support that
        type."""
        if dtype not in FLOATS:
            raise InputError(f"codec {self}: cannot take {dtype} numbers; allowed: {', '.join(FLOATS)}")
        return self

    def widened(self) -> Codec:
        """Return the codec for FP32 numbers; numbers of narrower types are widened to FP32 before encoding."""
        return self

    def is_exact_for(self, dtype: str) -> bool:
        """Return whether decoding reproduces numbers of the type `dtype` exactly."""
        return self.is_lossless

    @property
    def relative_error(self) -> float:
        """Largest `error_bound` of a block divided by the block's largest magnitude."""
        return self.error_bound(1.0)


def decimal(text: str) -> float | None:
    """Parse a non-negative number written without sign or exponent, of at most 30 digits; None for any other text."""
    return float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,20})?", text) else None
