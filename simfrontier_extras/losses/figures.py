"""Charts of losses: speed against the distance of the final loss, and losses over the steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape as text
from typing import TYPE_CHECKING, Any, Final

from simfrontier.interfaces.report.phrases import number, signed
from simfrontier.interfaces.report.theme import (
    LINE,
    Figure,
    PlanMark,
    PlotTrace,
    axis,
    figure,
    points as marks,
    scatter,
)
from simfrontier_extras.losses.curves import LossCurves

if TYPE_CHECKING:
    import pandas as pd

SHADE: Final = "rgba(125,135,145,0.25)"  # the band of the baseline
SYMBOLS: Final = ("circle", "diamond-open")  # by type of the messages
WHOLE, APART = "losses", "distance from the baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class GainLossPoint:
    """A plan whose gain in speed and change of the final loss are both known. `of`: the element type of its
    messages."""

    plan: str
    of: str
    distance: float
    gain: float
    mark: PlanMark


def trade_off(points: Sequence[GainLossPoint], published: Mapping[str, float], half_band: float | None) -> Figure:
    """Plot gain in speed against the difference of the final loss, with the baseline at the origin and its band shaded;
    a published gain is a dotted line."""
    origin = marks("no compression", [0.0], [0.0], LINE, "cross", ["no compression"])
    types = dict.fromkeys(point.of for point in points)
    traces = [_points(of, symbol, points) for of, symbol in zip(types, SYMBOLS, strict=False)]
    shapes = [_level(100 * gain, f"published, {text(name)}: {signed(gain)}") for name, gain in published.items()]
    if half_band is not None:
        ends = {"xref": "x", "yref": "paper", "x0": -half_band, "x1": half_band, "y0": 0, "y1": 1}
        shapes.append({"type": "rect", **ends, "fillcolor": SHADE, "line": {"width": 0}, "layer": "below"})
    x = axis("final loss, distance from the baseline (shaded: its band)", hoverformat=".3~g")
    y = axis("gain in tokens/s (%)", zeroline=True, zerolinecolor=LINE)
    return figure([origin, *traces], x, y, 460, shapes=shapes)


def _points(of: str, symbol: str, points: Sequence[GainLossPoint]) -> PlotTrace:
    own = [point for point in points if point.of == of]
    hover = [
        f"<b>{text(point.plan)}</b><br>speed: {signed(point.gain)}<br>final loss: {_apart(point.distance)}"
        for point in own
    ]
    return marks(
        f"{of} messages",
        [point.distance for point in own],
        [100 * point.gain for point in own],
        [point.mark.colour for point in own],
        symbol,
        hover,
        {"size": 13, "line": {"width": 2.5}},
        mode="markers+text",
        text=[text(point.plan) for point in own],
        textposition="top center",
        cliponaxis=False,
    )


def _level(y: float, words: str) -> dict[str, Any]:
    label = {"text": words, "textposition": "end", "font": {"size": 11, "color": LINE}}
    line = {"dash": "dot", "width": 1.5, "color": LINE}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line, "label": label}


def _apart(distance: float) -> str:
    return "as the baseline’s" if distance == 0.0 else f"{number(abs(distance))} {'above' if distance > 0 else 'below'}"


def curves(losses: LossCurves, colours: Mapping[str, str]) -> dict[str, Figure]:
    """Plot smoothed losses by step, and their difference from the baseline's for the same seed; `colours` by policy."""
    base = losses.smoothed(losses.baseline)
    others = [one for one in losses.policies if not losses.of(one).equals(losses.of(losses.baseline))]
    whole = [_line(one, losses.smoothed(one), colours[one]) for one in others]
    apart = [_line(one, losses.distances(one), colours[one]) for one in others]
    x = axis("step")
    return {
        APART: figure([*_baseline(0 * base, losses), *apart], x, axis("loss, distance from the baseline"), 420),
        WHOLE: figure([*_baseline(base, losses), *whole], x, axis("loss"), 420),
    }


def _baseline(middle: pd.Series[float], losses: LossCurves) -> list[PlotTrace]:
    """Return the baseline's line, and two lines with the shaded band between them."""
    line, half = _line(losses.baseline, middle, LINE), losses.half_bands
    if half is None:
        return [line]
    edge = {"line": {"width": 0}, "hoverinfo": "skip"}
    low = scatter("", losses.steps, _values(middle - half), "lines", showlegend=False, **edge)
    shade = {"fill": "tonexty", "fillcolor": SHADE}
    high = scatter("band of the baseline", losses.steps, _values(middle + half), "lines", **shade, **edge)
    return [low, high, line]


def _line(name: str, values: pd.Series[float], colour: str) -> PlotTrace:
    hover = f"<b>{text(name)}</b><br>step %{{x}}: %{{y:.4~g}}<extra></extra>"
    look = {"width": 2, "color": colour}
    steps = [int(step) for step in values.index]
    return scatter(text(name), steps, _values(values), "lines", line=look, hovertemplate=hover)


def _values(values: pd.Series[float]) -> list[float | None]:
    """Return values with six digits; None if a run diverged."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]
