"""Sets of ranks as short text: `0-7,16` and, with a stride, `0-75260:4`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_RANGE: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)


def ranges_text(ranks: Sequence[int]) -> str:
    """Write ascending ranks as ranges, each as long as its stride goes on."""
    parts, at = [], 0
    while at < len(ranks):
        first, last, stride, stop = ranks[at], ranks[at], 1, at + 1
        if stop < len(ranks):
            stride = ranks[stop] - first
            while stop < len(ranks) and ranks[stop] - last == stride:
                last = ranks[stop]
                stop += 1
        if stop - at == 2 and stride > 1:  # two that only happen to lie apart
            last, stop = first, at + 1
        parts.append(f"{first}" if last == first else f"{first}-{last}" + (f":{stride}" if stride > 1 else ""))
        at = stop
    return ",".join(parts)


def ranks_of_text(text: str) -> tuple[int, ...]:
    """Parse such a text. Raises ValueError unless ranks ascend."""
    results: list[int] = []
    for part in text.split(",") if text else ():
        matched = _RANGE.fullmatch(part)
        if matched is None:
            raise ValueError(f"{part!r} is not a rank or a range of ranks, such as 0-7 or 0-28:4")
        first, last, stride = int(matched[1]), int(matched[2] or matched[1]), int(matched[3] or 1)
        if last < first or stride < 1 or (results and first <= results[-1]):
            raise ValueError(f"{part!r}: ranks do not ascend")
        results += range(first, last + 1, stride)
    return tuple(results)
