"""Drawings as SVG: parts of drawings of links, and the chart of rates where no script runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2

from simfrontier.interfaces.report.render import render
from simfrontier.interfaces.report.theme import PlanMark, nice_ticks
from simfrontier.interfaces.report.view import RATE, Rows

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


_WIDTH, _HEIGHT = 640.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 130.0, 12.0, 40.0
_LABEL_HEIGHT = 15.0


def scaling_drawing(rows: Rows, marks: Mapping[str, PlanMark], device: str, unit: str, paper: str = "") -> str:
    """Rates (in `unit`) against devices (logarithmic), a line per plan through the medians of its samples within their
    band; empty where nothing fits. Colours of text and axes are those of what is around it, or black on `paper`."""
    known = {plan: [row for row in own if row["fits"]] for plan, own in rows.items()}
    fitting = {plan: own for plan, own in known.items() if own}
    if not fitting:
        return ""
    every = [row for own in fitting.values() for row in own]
    sizes = sorted({row["devices"] for row in every})
    ticks = nice_ticks(max(row.get(f"{RATE}_p95") or row[RATE] for row in every))
    span = log2(sizes[-1] / sizes[0]) or 1.0

    def place(devices: int, value: float) -> tuple[float, float]:
        along = log2(devices / sizes[0]) / span if len(sizes) > 1 else 0.5
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * along
        y = _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1.0 - value / ticks[-1])
        return round(x, 1), round(y, 1)

    def line(plan: str, column: str) -> list[tuple[float, float]]:
        return [place(row["devices"], row[column]) for row in fitting[plan] if row.get(column)]

    labels = _apart({plan: line(plan, RATE)[-1][1] for plan in fitting})
    return render(
        "drawings/scaling.svg.j2",
        plans=[
            {
                "plan": plan,
                "colour": marks[plan].colour,
                "line": line(plan, RATE),
                "band": [*line(plan, f"{RATE}_p05"), *reversed(line(plan, f"{RATE}_p95"))],
                "label_y": labels[plan],
            }
            for plan in fitting
        ],
        sizes=[(size, place(size, 0.0)) for size in sizes],
        ticks=[(tick, place(sizes[0], tick)[1]) for tick in ticks],
        device=device,
        unit=unit,
        paper=paper,
        width=_WIDTH,
        height=_HEIGHT,
        left=_LEFT,
        right=_WIDTH - _RIGHT,
    )


def _apart(heights: Mapping[str, float]) -> dict[str, float]:
    """Heights of labels near those wanted, none over another."""
    out: dict[str, float] = {}
    last = -_LABEL_HEIGHT
    for plan in sorted(heights, key=lambda plan: heights[plan]):
        last = out[plan] = max(heights[plan], last + _LABEL_HEIGHT)
    over = max(0.0, last - (_HEIGHT - _BOTTOM))
    return {plan: height - over for plan, height in out.items()}
