"""Charts of losses: speed against the distance of the final loss, and losses over the steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape as text
from typing import Any, Final

import numpy as np

from simfrontier.arrays import Floats
from simfrontier.report.phrases import number, signed
from simfrontier.report.theme import Figure, PlanMark, axis, figure, scatter
from simfrontier_extras.losses.curves import LossCurves

SHADE: Final = "rgba(125,135,145,0.25)"  # the band of the baseline
GREY: Final = "#8A8F94"
SYMBOLS: Final = ("circle", "diamond-open")  # by type of the messages
WHOLE, APART = "losses", "distance from the baseline"
_CROWDED: Final = 10.0  # distances beyond so many half bands would hide the others on a linear axis
_NEAR: Final = (0.12, 0.1)  # shares of the two axes within which points are so near that their names would overlap
_SIDES: Final = ("top center", "bottom center", "middle right", "middle left")


@dataclass(frozen=True, slots=True, kw_only=True)
class GainLossPoint:
    """A plan whose gain and loss are both known. `of`: the type of its messages."""

    plan: str
    of: str
    distance: float
    gain: float
    mark: PlanMark


def trade_off(points: Sequence[GainLossPoint], published: Mapping[str, float], half_band: float | None) -> Figure:
    """Gain over distance of the final loss, the baseline in the origin, its band shaded; a published gain is a dotted
    line."""
    place, ticks = _scale([point.distance for point in points], half_band)
    room = [place(end) for end in _ends(points, half_band)]
    heights = [0.0, *(100 * point.gain for point in points), *(100 * gain for gain in published.values())]
    low, high = min(heights), max(heights)
    tall = high - low or 1.0
    sides = _sides({p.plan: (place(p.distance) / (room[1] - room[0]), 100 * p.gain / tall) for p in points})
    types = list(dict.fromkeys(point.of for point in points))
    traces = [_published(name, gain, place, points, half_band) for name, gain in published.items()]
    traces.append(_marked("no compression", [0.0], [0.0], {"symbol": "cross", "size": 11, "color": GREY}))
    for of, symbol in zip(types, SYMBOLS, strict=False):
        own_points = sorted((p for p in points if p.of == of), key=lambda point: (point.distance, point.gain))
        traces.append(
            {
                **_marked(
                    f"{of} messages",
                    [place(point.distance) for point in own_points],
                    [100 * point.gain for point in own_points],
                    {
                        "symbol": symbol,
                        "size": 13,
                        "color": [p.mark.colour for p in own_points],
                        "line": {"width": 2.5},
                    },
                ),
                "mode": "markers+text",
                "text": [text(point.plan) for point in own_points],
                "textposition": [sides[point.plan] for point in own_points],
                "customdata": [[signed(point.gain), _apart(point.distance)] for point in own_points],
                "hovertemplate": (
                    "<b>%{text}</b><br>speed: %{customdata[0]}<br>final loss: %{customdata[1]}<extra></extra>"
                ),
                "cliponaxis": False,
            }
        )
    shapes = []
    if half_band is not None:
        ends = {"x0": place(-half_band), "x1": place(half_band), "y0": 0, "y1": 1}
        shapes.append(
            {"type": "rect", "xref": "x", "yref": "paper", **ends, "fillcolor": SHADE, "line": {"width": 0}}
            | {"layer": "below"}
        )
    wide = 0.12 * (room[1] - room[0])
    beyond = "; logarithmic beyond it" if "tickvals" in ticks else ""
    x = axis(f"final loss, distance from the baseline (shaded: its band{beyond})", **ticks)
    x["range"] = [room[0] - wide, room[1] + wide]
    y = axis("gain in tokens/s (%)", zeroline=True, zerolinecolor=GREY, range=[low - 0.12 * tall, high + 0.15 * tall])
    return figure(traces, x, y, 460, shapes=shapes)


def _sides(at: Mapping[str, tuple[float, float]]) -> dict[str, str]:
    """The place of each point's name: around it, where others are near, the higher ones' above."""
    out: dict[str, str] = {}
    waiting = sorted(at, key=lambda plan: -at[plan][1])
    while waiting:
        x, y = at[waiting[0]]
        near = [plan for plan in waiting if abs(at[plan][0] - x) < _NEAR[0] and abs(at[plan][1] - y) < _NEAR[1]]
        around = [near[0], *near[:0:-1]]  # the highest, then from the lowest up
        out |= {plan: _SIDES[number % len(_SIDES)] for number, plan in enumerate(around)}
        waiting = [plan for plan in waiting if plan not in near]
    return out


def _marked(name: str, x: list[float], y: list[float], marker: dict[str, Any]) -> dict[str, Any]:
    return scatter(name, x, y, marker=marker, hovertemplate=f"<b>{text(name)}</b><extra></extra>")


def _published(
    name: str, gain: float, place: Callable[[float], float], points: Sequence[GainLossPoint], half_band: float | None
) -> dict[str, Any]:
    low, high = (place(end) for end in _ends(points, half_band))
    return {
        "type": "scatter",
        "mode": "lines+text",
        "showlegend": False,
        "x": [low, high],
        "y": [100 * gain] * 2,
        "text": ["", f"published, {text(name)}: {signed(gain)}"],
        "textposition": "top left",
        "textfont": {"size": 11, "color": GREY},
        "line": {"dash": "dot", "width": 1.5, "color": GREY},
        "hoverinfo": "skip",
    }


def _ends(points: Sequence[GainLossPoint], half_band: float | None) -> tuple[float, float]:
    known = [0.0, *(point.distance for point in points), *([] if half_band is None else [-half_band, half_band])]
    low, high = min(known), max(known)
    return (low, high) if high > low else (-1.0, 1.0)


def _scale(distances: Sequence[float], half_band: float | None) -> tuple[Callable[[float], float], dict[str, Any]]:
    """The position of a distance on the axis, and the axis's ticks: as it is, or, where some lie far out, linear within
    the band and logarithmic beyond."""
    sizes = [abs(distance) for distance in distances if distance]
    unit = half_band or min(sizes, default=0.0)
    if not unit or max(sizes, default=0.0) <= _CROWDED * unit:
        return float, {"hoverformat": ".3~g"}

    def place(distance: float) -> float:
        return math.asinh(distance / unit)

    powers = range(math.ceil(math.log10(unit)), math.floor(math.log10(max(sizes))) + 1)
    decades = [10.0**power for power in powers]
    lower = [-size for size in reversed(decades) if size <= -min(0.0, *distances) or size <= unit]
    values = [*lower, 0.0, *decades]
    return place, {
        "tickvals": [place(value) for value in values],
        "ticktext": [f"{value:+g}".replace("-", "−") if value else "0" for value in values],
    }


def _apart(distance: float) -> str:
    return "as the baseline’s" if distance == 0.0 else f"{number(abs(distance))} {'above' if distance > 0 else 'below'}"


# ── losses over the steps ──


def curves(losses: LossCurves, colours: Mapping[str, str]) -> dict[str, Figure]:
    """Smoothed losses by step, and how far they are from the baseline's of the same seed; `colours` by policy."""
    steps, half = list(losses.steps), losses.half_bands
    base, others = losses.smoothed(losses.baseline), [one for one in losses.policies if _other(one, losses)]
    whole = list(_band(steps, base, half))
    whole += [_line(losses.baseline, steps, base, GREY)]
    whole += [_line(one, steps, losses.smoothed(one), colours[one]) for one in others]
    zero = np.zeros(len(steps))
    apart = list(_band(steps, zero, half))
    apart += [_line(losses.baseline, steps, zero, GREY)]
    apart += [_line(one, steps, losses.distances(one), colours[one]) for one in others]
    x = axis("step")
    return {
        APART: figure(apart, x, axis("loss, distance from the baseline"), 420),
        WHOLE: figure(whole, x, axis("loss", **_lid([losses.smoothed(one) for one in others], base)), 420),
    }


def _other(one: str, losses: LossCurves) -> bool:
    return losses.of(one) != losses.of(losses.baseline)


def _band(steps: list[int], middle: Floats, half: Floats | None) -> Iterator[dict[str, Any]]:
    """Two lines with the space between them shaded."""
    if half is None:
        return
    edge = {"type": "scatter", "mode": "lines", "x": steps, "line": {"width": 0}, "hoverinfo": "skip"}
    yield {**edge, "y": _values(middle - half), "showlegend": False}
    yield {**edge, "y": _values(middle + half), "name": "band of the baseline", "fill": "tonexty", "fillcolor": SHADE}


def _line(name: str, steps: list[int], values: Floats, colour: str) -> dict[str, Any]:
    hover = f"<b>{text(name)}</b><br>step %{{x}}: %{{y:.4~g}}<extra></extra>"
    look = {"width": 2, "color": colour}
    return scatter(text(name), steps, _values(values), "lines", line=look, hovertemplate=hover)


def _values(values: Floats) -> list[float | None]:
    """Six digits; nothing where a run diverged."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]


def _lid(others: Sequence[Floats], base: Floats) -> dict[str, Any]:
    """The range of the losses where some grow so far that the baseline would be flat."""
    finite = [row[np.isfinite(row)] for row in (base, *others)]
    low, high = (min(float(row.min()) for row in finite if row.size), float(finite[0].max()))
    most = max(float(row.max()) for row in finite if row.size)
    room = 0.1 * (high - low)
    return {"range": [low - room, high + room]} if most > high + 5 * room else {}
