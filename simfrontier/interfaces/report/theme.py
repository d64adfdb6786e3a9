"""Colours and the common layout of the charts. Plans keep one colour throughout; so do levels and kinds of memory.

Plans: Okabe and Ito's palette for all kinds of colour vision, with a marker symbol each. Levels of communication: one
warm ramp, the darker the farther. The page's script puts in text and grid colours, by the reader's light or dark mode.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log2, log10
from typing import Any

from simfrontier.base.arrays import Floats
from simfrontier.base.units import has_multiples, scaled

Figure = dict[str, Any]
PlotTrace = dict[str, Any]
SECONDS = {"tickformat": ".9~s", "ticksuffix": "s"}  # of axes: 1.5ms
LOG_SECONDS = {
    "type": "log",
    "tickformat": ".9~s",
    "nticks": 4,
}  # ticks between decades get no suffix: the title names the unit
BYTES = {"tickformat": ".9~s", "ticksuffix": "B"}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_PLANS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7A5195", "#8C8C00", "#7F7F7F")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "pentagon", "star", "hexagon", "cross")

INK = "#111111"  # the page's script puts in the colour of its text
LINE = "#8A8A8A"  # of what marks are compared with
CAPACITY = "#B22222"
COMPUTE, CODEC, HOST, IDLE = "#54708C", "#8E6BBF", "#8C6D4F", "#C9C9C4"
COLLECTIVES = {"all_gather": "#0072B2", "reduce_scatter": "#D55E00", "all_reduce": "#CC79A7", "all_to_all": "#009E73"}
OTHER_COLLECTIVES = "#7F7F7F"
LEVEL_COLOURS = {"inter_node": "#A4243B", "intra_node": "#E07A3F", "package": "#F2C14E"}
LEVEL_NAMES = {"inter_node": "between nodes", "intra_node": "inside a node", "package": "inside a package"}
MEMORY_COLOURS = {
    "weights": "#44779E",
    "second copy": "#88B7D5",
    "optimizer": "#3F7D58",
    "kept states": "#6FB7A0",
    "gradients": "#A6C36F",
    "gathered weights": "#B58DB6",
    "gradient buffers": "#E0A458",
    "encoded messages": "#7C5C8A",
    "activations": "#C8553D",
    "other": "#9A9A9A",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMark:
    """Colour and symbol of a plan in all charts."""

    colour: str
    symbol: str


def marks(plans: Sequence[str]) -> dict[str, PlanMark]:
    """Return a mark for each plan, by its position in the scenario. Plans that share a colour differ in their
    symbol."""
    return {
        plan: PlanMark(colour=_PLANS[i % len(_PLANS)], symbol=_SYMBOLS[(i + i // len(_PLANS)) % len(_SYMBOLS)])
        for i, plan in enumerate(plans)
    }


def faint(colour: str, opacity: float) -> str:
    """Return a translucent variant of a colour (#rrggbb)."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


def axis(title: str, **more: Any) -> dict[str, Any]:
    """Return an axis with a title; its margin adapts to its labels."""
    return {"title": {"text": title, "standoff": 8}, "automargin": True, "zeroline": False, **more}


def plan_labels(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the plan names of result rows as labels of bars; plans that do not fit are marked as such."""
    return [row["plan"] if row["fits"] else f"{row['plan']}<br>(does not fit)" for row in rows]


def rows(labels: Sequence[str]) -> dict[str, Any]:
    """Return a vertical axis of names, the first name on top."""
    return {"autorange": "reversed", "type": "category", "categoryorder": "array", "categoryarray": list(labels)}


def bar(name: str, labels: Sequence[Any], values: Sequence[float | None], colour: object, **more: Any) -> PlotTrace:
    """Return horizontal bars, a row for each label."""
    fixed = {"type": "bar", "orientation": "h", "name": name}
    return {**fixed, "y": list(labels), "x": list(values), "marker": {"color": colour}, **more}


def spans(
    name: str, rows: Sequence[int], starts: Sequence[float], ends: Sequence[float], colour: str, **more: Any
) -> PlotTrace:
    """Return horizontal bars from `starts` to `ends`, in the rows with the given numbers."""
    lengths = [end - start for start, end in zip(starts, ends, strict=True)]
    look = {"marker": {"color": colour, "line": {"width": 0}}}
    return bar(name, rows, lengths, colour, base=list(starts)) | look | more


def bars(name: str, labels: Sequence[str], values: Sequence[float | None], colour: str, unit: str) -> PlotTrace:
    """Return horizontal bars with their values as hover text (`unit`: s, B, or % for shares)."""
    value = "%{x:.2%}" if unit == "%" else f"%{{x:.4~s}}{unit}"
    return bar(name, labels, values, colour, hovertemplate=f"<b>%{{y}}</b><br>{name}: {value}<extra></extra>")


def told_bars(
    name: str, labels: Sequence[str], values: Sequence[float], colour: object, hover: Sequence[str], **more: Any
) -> PlotTrace:
    """Return horizontal bars, each with its own hover text."""
    return bar(name, labels, values, colour, hovertext=list(hover), hovertemplate="%{hovertext}<extra></extra>") | more


def scatter(name: str, x: Sequence[Any], y: Sequence[Any], mode: str = "markers", **more: Any) -> PlotTrace:
    """Return markers, lines or texts in a plane, with further plotly attributes."""
    return {"type": "scatter", "mode": mode, "name": name, "x": list(x), "y": list(y), **more}


def points(
    name: str,
    x: Sequence[Any],
    y: Sequence[Any],
    colour: object,
    symbol: str,
    hover: Sequence[str],
    marker: Mapping[str, Any] | None = None,
    **more: Any,
) -> PlotTrace:
    """Return markers, each with its own hover text; `marker` adds to their style."""
    look = {"color": colour, "symbol": symbol, "size": 8, **(marker or {})}
    told = {"hovertext": list(hover), "hovertemplate": f"%{{hovertext}}<extra>{name}</extra>"}
    return scatter(name, x, y, marker=look) | told | more


def line(name: str, x: Sequence[float], y: Sequence[float], dash: str = "solid", **more: Any) -> PlotTrace:
    """Return a grey reference line without hover text; it appears in the legend if it has a name."""
    look = {"color": LINE, "width": 1.4, "dash": dash}
    return scatter(name, x, y, "lines", showlegend=bool(name), line=look, hoverinfo="skip") | more


UPRIGHT, ACROSS = ("triangle-down", "triangle-up"), ("triangle-left", "triangle-right")


def within(
    values: Sequence[float], low: float, high: float, arrows: tuple[str, str] = UPRIGHT
) -> tuple[list[float], list[str]]:
    """Return published values as they are drawn beside simulated ones, on an axis from `low` to `high` that they never
    stretch, and their symbols: a star, or at an end of the axis an arrow towards a value beyond it."""
    symbols = [arrows[1] if value > high else arrows[0] if value < low else "star" for value in values]
    return [min(max(value, low), high) for value in values], symbols


def packed(values: Floats) -> dict[str, str]:
    """Return a plotly typed array: little-endian 32-bit floats in base 64."""
    return {"dtype": "f4", "bdata": b64encode(values.astype("<f4").tobytes()).decode()}


def capacity(x: Sequence[Any], value: float) -> PlotTrace:
    """Return a dashed line at the memory capacity of a device."""
    look = {"dash": "dash", "width": 2, "color": CAPACITY}
    return scatter("capacity", x, [value] * len(x), "lines", line=look, hoverinfo="skip")


def error_bars(bands: Sequence[tuple[float, float, float]], **more: Any) -> dict[str, Any]:
    """Return error bars from the middle of each (low, middle, high) to its low and high ends."""
    above, below = [high - middle for _, middle, high in bands], [middle - low for low, middle, _ in bands]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, **more}


def lanes_axis(title: str, lanes: Sequence[object], **more: Any) -> dict[str, Any]:
    """Return a vertical axis for rows numbered from 0 at the top, labelled with the names of the lanes."""
    names = {"tickvals": list(range(len(lanes))), "ticktext": list(lanes)}
    return axis(title, **names, range=[len(lanes) - 0.5, -0.5], fixedrange=True, **more)


def unit_ticks(unit: str) -> dict[str, Any]:
    """Return the format of the ticks of an axis whose values have this unit."""
    if unit == "share":
        return {"tickformat": "~%"}
    return {"tickformat": ".9~s", "ticksuffix": scaled(0.0, unit).unit} if has_multiples(unit) else {}


def nice_ticks(highest: float) -> list[float]:
    """Return four to eight round ticks of an axis, from 0 to the first tick that is at least `highest`."""
    power = 10.0 ** floor(log10(highest))
    step = next(step * power for step in (0.2, 0.5, 1.0, 2.0) if highest / (step * power) <= 7.0)
    return [step * number for number in range(ceil(highest / step) + 1)]


def decades(low: float, high: float) -> list[float]:
    """Return ticks of a logarithmic axis: the powers of ten, and the more intermediate ticks the fewer decades there
    are."""
    steps = (1,) if high / low > 1e3 else (1, 2, 5) if high / low > 10 else (1, 1.5, 2, 3, 4, 5, 7)
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    return [tick for power in powers for step in steps if low <= (tick := float(f"{step}e{power}")) <= high]


def powers_of_two(low: float, high: float, most: int) -> list[float]:
    """Return ticks of a logarithmic axis of sizes: at most `most` powers of two, evenly spaced."""
    powers = range(ceil(log2(low)), floor(log2(high)) + 1)
    return [2.0**power for power in powers[:: max(1, -(-len(powers) // most))]]


def figure(traces: list[PlotTrace], x: dict[str, Any], y: dict[str, Any], height: int, **more: Any) -> Figure:
    """Return a chart of the page: transparent background, clickable legend above."""
    layout = {
        "height": height,
        "margin": {"l": 10, "r": 14, "t": 10, "b": 10},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 13},
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.03,
            "yanchor": "bottom",
            "traceorder": "normal",
        },
        "hoverlabel": {"align": "left", "font": {"family": FONT, "size": 13}},
        "xaxis": x,
        "yaxis": y,
        **more,
    }
    return {"data": traces, "layout": layout}
