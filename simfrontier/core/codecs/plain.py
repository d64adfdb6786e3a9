"""Plain numbers: fp64, fp32, fp16, bf16; a message in a narrower type is cast. Integers are sent as they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final

from simfrontier.base.errors import InputError
from simfrontier.core.codecs.codec import Codec
from simfrontier.core.dtypes import DTYPE_BYTES, FLOATS

NAMES: Final = FLOATS
TIMED: Final = ()
_MANTISSA: Final = {"fp64": 53, "fp32": 24, "fp16": 11, "bf16": 8}  # significant bits


@dataclass(frozen=True, slots=True)
class Plain(Codec):
    """Numbers of the type `name`."""

    name: str
    family: ClassVar[str] = "plain"
    is_opaque: ClassVar[bool] = False

    @property
    def bits(self) -> Fraction:
        """Bits of the type."""
        return Fraction(8 * DTYPE_BYTES[self.name])

    def payload_bytes(self, elements: int) -> int:
        """Whole numbers of whole bytes."""
        return elements * DTYPE_BYTES[self.name]

    def error_bound(self, largest: float) -> float:
        """Half a unit in the last place, in the type's normal range: 2^(floor(log2 largest) - significant bits)."""
        return math.ldexp(1.0, math.frexp(largest)[1] - 1 - _MANTISSA[self.name]) if largest else 0.0

    def is_exact_for(self, dtype: str) -> bool:
        """Of their own type."""
        return self.name == dtype

    def __str__(self) -> str:
        return self.name


def parse(text: str, name: str, rest: str | None) -> Codec:
    """The codec that a text means: a name and nothing else. Raises InputError."""
    if rest is not None:
        raise InputError(f"codec {text!r}: {name} takes no block size")
    return Plain(name)
