"""mpc: lossless, on 32-bit words (Yang et al., Pricing 2015); how far numbers shrink depends on them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, Final

from simfrontier.base.errors import InputError
from simfrontier.core.codecs.codec import Codec, decimal
from simfrontier.core.dtypes import DTYPE_BYTES, FLOATS

WORD_BYTES: Final = 4
_RATIOS: Final = {"fp32": 1.10, "fp16": 1.03, "bf16": 1.03, "fp64": 1.0}
_WIDENED_RATIOS: Final = {"fp16": 1.89, "bf16": 2.29}
"""Size before over size after, by default, by type of the numbers: of a normal distribution, measured
with an implementation of Yang et al. (Pricing 2015) on 2.1 M of them. 16-bit ones are read in pairs as words (bf16 is
assumed to do as fp16, fp64 not to shrink), or are widened to fp32 first, before which their size is counted."""
_LEAST_RATIO, _LARGEST_RATIO = 0.5, 32.0
NAMES: Final = ("mpc",)
TIMED: Final = NAMES


@dataclass(frozen=True, slots=True)
class Mpc(Codec):
    """Words of numbers of type `of`, to which narrower ones are widened ("": of any type); `ratio` (before over after)
    is by how much a schedule assumes them to shrink (0: as the type's)."""

    ratio: float = 0.0
    of: str = ""
    name: str = field(default="mpc", init=False)
    family: ClassVar[str] = "mpc"
    is_measured: ClassVar[bool] = True
    is_lossless: ClassVar[bool] = True

    @property
    def bits(self) -> Fraction:
        """Bits of a number by the ratio."""
        of = self.of or "fp32"
        return 8 * DTYPE_BYTES[of] / Fraction(str(self.ratio or _RATIOS[of]))

    def on(self, dtype: str) -> Codec:
        """The codec with the type of its numbers and their ratio. Raises InputError."""
        Codec.on(self, dtype)
        if self.of == "fp32" and dtype in _WIDENED_RATIOS:
            return replace(self, ratio=self.ratio or _WIDENED_RATIOS[dtype])
        if self.of not in ("", dtype):
            raise InputError(f"codec {self}: is for {self.of} numbers, these are {dtype}; allowed: mpc:{dtype}")
        return replace(self, of=dtype, ratio=self.ratio or _RATIOS[dtype])

    def widened(self) -> Codec:
        """For fp32 numbers, where it has no type."""
        return self if self.of else replace(self, of="fp32")

    def error_bound(self, largest: float) -> float:
        """Nothing."""
        return 0.0

    def __str__(self) -> str:
        return ":".join(["mpc", *([self.of] if self.of else []), *([f"{self.ratio:g}"] if self.ratio else [])])


def parse(text: str, name: str, rest: str | None) -> Codec:
    """`mpc`, `mpc:TYPE`, `mpc:RATIO` or `mpc:TYPE:RATIO`. Raises InputError."""
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
