"""Parts of drawings of links: lines with words, labels, and the scale of colours with its key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from simfrontier.interfaces.report.render import render

Point = tuple[float, float]
STOPS = ((0.0, (190, 198, 208)), (0.35, (242, 193, 78)), (0.7, (224, 90, 50)), (1.0, (140, 18, 48)))


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLine:
    """One direction of a link, and what is said of it when pointed at."""

    start: Point
    end: Point
    colour: str
    width: float
    words: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """Words on a link, of those of these names; a warning has the colour of warnings."""

    at: Point
    words: str
    is_warning: bool = False
    names: tuple[str, ...] = ()


def key(name: str, words: str, label: str, least: str, most: str) -> str:
    """The SVG of the scale's legend: `words` below it, and what its ends are. `name`: of its gradient."""
    stops = [(share, _rgb(value)) for share, value in STOPS]
    return render("drawings/key.svg.j2", stops=stops, name=name, words=words, label=label, least=least, most=most)


def colour(share: float) -> str:
    """Colour of a share (0..1) of the scale, between its stops."""
    share = min(max(share, 0.0), 1.0)
    for (low, before), (high, after) in pairwise(STOPS):
        if share <= high:
            part = (share - low) / (high - low)
            return _rgb([round(a + part * (b - a)) for a, b in zip(before, after, strict=True)])
    return _rgb(STOPS[-1][1])


def across(start: Point, end: Point, distance: float) -> Point:
    """A step so far to the right of the way from a point to another."""
    length = math.dist(start, end) or 1.0
    return -(end[1] - start[1]) / length * distance, (end[0] - start[0]) / length * distance


def _rgb(value: Sequence[int]) -> str:
    return "#" + "".join(f"{part:02x}" for part in value)
