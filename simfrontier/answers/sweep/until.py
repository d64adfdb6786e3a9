"""When a sweep that adds points by itself has enough of them."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Final

from simfrontier.base.errors import InputError, shown

_SECONDS: Final = {"s": 1.0, "min": 60.0, "h": 3600.0}
_TEXT: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s{0,3}(points|s|min|h|%)?")
ALLOWED: Final = "a number of points (500), a time (90s, 30min, 2h) or a precision (1%)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """Enough are so many points, those that begin within so many seconds, or as many as make the result known to that
    part of itself. At most one of them is given."""

    points: int | None = None
    seconds: float | None = None
    precision: float | None = None

    def is_over(self, started: float) -> bool:
        """Return whether the time is over since `started`, of `time.monotonic`."""
        return self.seconds is not None and time.monotonic() - started >= self.seconds


def parse_until(text: str) -> Until:
    """What --until says. Raises InputError."""
    found = _TEXT.fullmatch(text.strip())
    if found is None or not (number := float(found[1])):
        raise InputError(f"got {shown(text)}; allowed: {ALLOWED}", where="--until")
    unit = found[2] or "points"
    if unit == "%":
        return Until(precision=number / 100.0)
    if unit != "points":
        return Until(seconds=number * _SECONDS[unit])
    if not number.is_integer():
        raise InputError(f"got {shown(text)}; allowed: a whole number of points", where="--until")
    return Until(points=int(number))
