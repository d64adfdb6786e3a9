"""Numbers and lists as a page writes them: few digits, thousands separated, plain words for distances."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simfrontier.machine import Machine
from simfrontier.units import written

TOO_BIG = "does not fit"
NOT_RUN = "not run"
NOTHING = "–"
_BLANK = "\u00a0"  # a number and its unit stay on one line


def device_word(machine: Machine) -> str:
    """What this machine's devices are called: half of a package is a GCD."""
    return machine.device_word


def number(value: float, digits: int = 3) -> str:
    """At least `digits` significant digits, whole above that, thousands separated: 80.8, 4,096, 0.0137."""
    if not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value)) + 1e-12))
    return f"{value:,.{min(decimals, 8)}f}"


def quantity(value: float, unit: str) -> str:
    """A number with its unit, three digits: 4.74 s, 25.4 GB, 16.9 µs, 64 GB."""
    if not math.isfinite(value):
        return NOTHING
    size, _, name = exactly(value, unit).partition(_BLANK)
    return f"{number(float(size.replace(',', ''))) if '.' in size else size}{_BLANK}{name}".strip()


def binary(num_bytes: float) -> str:
    """A size as powers of two: 64 KiB, 1 MiB; decimal where it is no whole number of KiB."""
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if num_bytes >= size and num_bytes % size == 0:
            return f"{num_bytes / size:,.0f}{_BLANK}{unit}"
    return quantity(num_bytes, "bytes")


def exactly(value: float, unit: str) -> str:
    """A number with its unit as it was given, up to four digits: 1.638 TB/s, 191.5 Tflop/s."""
    return written(value, unit).replace(" us", " µs").replace(" ", _BLANK)


def percent(share: float | None) -> str:
    """A share as per cent: 13.2 %; a dash where there is none."""
    if share is None or not math.isfinite(share):
        return NOTHING
    value = 100 * share
    return f"{value:,.1f}{_BLANK}%" if abs(value) < 99.95 else f"{value:,.0f}{_BLANK}%"


def signed(share: float) -> str:
    """A change as per cent with its sign: +1.3 %, −0.2 %, 0.0 %."""
    size = percent(abs(share))
    if not math.isfinite(share) or size == percent(0.0):
        return size
    return f"{'+' if share > 0 else '−'}{size}"


def distance(predicted: float, published: float) -> str:
    """How far a prediction lies from a published number, said plainly: 60 % below."""
    apart = predicted / published - 1
    if abs(apart) < 0.005:
        return f"equal within 0.5{_BLANK}%"
    size = f"{abs(apart) * 100:.1f}" if abs(apart) < 0.1 else f"{abs(apart) * 100:.0f}"
    return f"{size}{_BLANK}% {'above' if apart > 0 else 'below'}"


def in_words(count: float) -> str:
    """A large count in words: 20.6 billion, 133 thousand."""
    for size, name in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if count >= size:
            return f"{number(count / size)} {name}"
    return number(count)


def tokens_per_second(sequence: int) -> str:
    """The unit of the rate of training: `tokens/s`; of models whose samples have no sequence `samples/s`."""
    return f"{'samples' if sequence == 1 else 'tokens'}/s"


def listed(names: Sequence[str]) -> str:
    """A list in words: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def sizes_in_words(sizes: Sequence[int]) -> str:
    """Sizes as a list: 8, 16 and 32."""
    return listed([f"{size:,}" for size in sizes])
