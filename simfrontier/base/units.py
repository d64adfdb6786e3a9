"""Units in the names of keys, and formatting of numbers with their units for people.

The code uses seconds, bytes and flops throughout; prefixes are decimal (1 GB = 1e9 bytes).
"""

import re
from collections.abc import Sequence
from math import floor, isfinite, log10
from typing import NamedTuple

_SUFFIXES = (
    ("_bytes_per_s", "bytes/s"),
    ("_flops_per_s", "flop/s"),
    ("_per_s", "1/s"),
    ("_bytes", "bytes"),
    ("_flops", "flop"),
    ("_s", "s"),
)
_COUNTS = ("num_", "devices_per_", "nodes_per_", "packages_per_")
_WRITTEN = {"bytes": "B", "bytes/s": "B/s", "flop": "flop", "flop/s": "flop/s", "s": "s"}
_PREFIXES = {-4: "p", -3: "n", -2: "µ", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T", 5: "P", 6: "E"}
_LONG_TIMES = (
    ("years", 365.25 * 86_400.0),
    ("days", 86_400.0),
    ("hours", 3_600.0),
    ("minutes", 60.0),
)
_SIZE = re.compile(r"\s*(\d{1,15}(?:\.\d{1,15})?)\s*(?:([kKMGT])(i?))?B?\s*", re.ASCII)


def bytes_of(text: str) -> int:
    """Parse a number of bytes such as 4096, 64kB (decimal) or 1.5MiB (binary). Raises ValueError."""
    matched = _SIZE.fullmatch(text)
    if matched is None:
        raise ValueError(f"{text!r} is not a number of bytes")
    number, prefix, binary = matched.groups()
    power = " KMGT".index(prefix.upper()) if prefix else 0
    return round(float(number) * (1024.0 if binary else 1000.0) ** power)


def unit_of(key: str) -> str:
    """Return the unit that the last part of a dotted key indicates: `device.hbm_bytes_per_s` is in bytes/s; "" for a
    dimensionless number."""
    name = key.rsplit(".", 1)[-1]
    if name.startswith(_COUNTS):
        return "count"
    return next((unit for suffix, unit in _SUFFIXES if ("_" + name).endswith(suffix)), "")


class Scaled(NamedTuple):
    """A number and the decimal multiple of a unit in which it is given: 25 and "GB/s"."""

    number: float
    unit: str


def scaled(value: float, unit: str) -> Scaled:
    """Return a value in a convenient decimal multiple of its unit (a key of `_WRITTEN`): `scaled(25e9, "bytes/s")` is
    25 GB/s."""
    if value == 0 or not isfinite(value):
        return Scaled(value, _WRITTEN[unit])
    lowest = 0 if unit.startswith(("bytes", "flop")) else min(_PREFIXES)
    highest = 0 if unit == "s" else max(_PREFIXES)
    power = min(max(floor(log10(abs(value) * (1 + 1e-9)) / 3), lowest), highest)
    return Scaled(value / 1000.0**power, f"{_PREFIXES[power]}{_WRITTEN[unit]}")


def has_multiples(unit: str) -> bool:
    """Return whether values of a unit are written in decimal multiples of the unit: true for bytes, false for
    counts."""
    return unit in _WRITTEN


def written(value: float, unit: str) -> str:
    """Return a value with its unit as text, with at most four digits: `written(25e9, "bytes/s")` is `25 GB/s`; an
    integer count is written in full."""
    if not has_multiples(unit):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
    number, name = scaled(value, unit)
    return f"{number:.4g} {name}"


def counted(count: int, one: str, several: str = "") -> str:
    """Return a count with its noun as text: 1 row, 1,012 rows."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def listed(names: Sequence[str]) -> str:
    """Return names as an enumeration in words: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def times(ratio: float) -> str:
    """Return a ratio of two times as text: ×1.16, ×1.071."""
    return f"×{ratio:.3f}" if ratio < 1.0995 else f"×{ratio:.2f}"


def time_words(seconds: float) -> str:
    """Return a time as text, in the largest unit of which it has at least two: `3 hours`."""
    for unit, each in _LONG_TIMES:
        if seconds >= 2 * each:
            return f"{seconds / each:,.0f} {unit}"
    return "a second" if seconds < 1.5 else f"{seconds:,.0f} seconds"
