"""The charts of a validation: measured against predicted, errors, and times over size with their 90 % bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape as text
from math import floor, isfinite, log10
from typing import Any

from simfrontier.accuracy import ComparedRow, Prediction, Use
from simfrontier.report.findings.rows import BYTES, RowPosition, row_name, standing
from simfrontier.report.phrases import binary, number, quantity, signed
from simfrontier.report.theme import (
    LINE,
    Figure,
    PlanMark,
    PlotTrace,
    axis,
    decades,
    error_bars,
    figure,
    line,
    points,
    powers_of_two,
)

USE_MARKS: Mapping[Use, PlanMark] = {
    "fitted": PlanMark(colour="#0072B2", symbol="circle"),
    "left out": PlanMark(colour="#009E73", symbol="diamond"),
    "held": PlanMark(colour="#D55E00", symbol="square"),
    "pathology": PlanMark(colour="#7F7F7F", symbol="circle-open"),
}
USE_NAMES: Mapping[Use, str] = {
    "fitted": "fitted",
    "left out": "left out",
    "held": "held",
    "pathology": "known pathology, not averaged",
}
LEVELS = ((1.0, "measured = predicted", "solid"), (1.1, "± 10 %", "dash"), (1.25, "± 25 %", "dot"))
STEP, FARTHEST = 0.05, 0.6  # of the histogram; errors beyond are counted in its last bars
MOST_SINGLE = 8  # rows in the highest bar, up to which its axis counts them one by one
LEAST_ERROR, MOST_ERROR = 30.0, 100.0  # per cent that the axis of errors shows at least and at most
COLOURS = ("#56B4E9", "#0072B2", "#009E73", "#8C8C00", "#E69F00", "#D55E00", "#CC79A7", "#7A5195")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "pentagon", "hexagon", "star")
BAND, BAR = "29", "59"  # opacity of a band and of a bar, as the last digits of a colour
MAX_TICKS = 8


def agreement_figure(rows: Sequence[ComparedRow]) -> Figure:
    """Measured against predicted times of rows that have both, on two logarithmic axes of seconds."""
    seconds = [s for row in rows if row.prediction for s in (row.measured_s, row.prediction.predicted_s) if s]
    ends = _from_decade(min(seconds) / 1.5, max(seconds) * 1.5), max(seconds) * 1.5
    traces = [
        line(name, ends, [end * each for end in ends], dash, legendgroup=name, showlegend=place == 0)
        for factor, name, dash in LEVELS
        for place, each in enumerate(dict.fromkeys((factor, 1 / factor)))
    ]
    for use, mark in USE_MARKS.items():
        several = [(row, row.prediction) for row in rows if row.use == use and row.measured_s]
        known = [(made.predicted_s, row.measured_s, _hover(row)) for row, made in several if made is not None]
        if known:
            predicted, measured, words = zip(*known, strict=True)
            look = {"size": 7, "opacity": 0.75}
            traces.append(points(USE_NAMES[use], predicted, measured, mark.colour, mark.symbol, words, look))
    x, y = (axis(f"{which} time", **_seconds_axis(ends)) for which in ("predicted", "measured"))
    return figure(traces, x, y, 540)


def errors_figure(rows: Sequence[ComparedRow]) -> Figure:
    """The numbers of rows by error, and by whether the fits had seen them."""
    last = round(FARTHEST / STEP)
    traces = []
    for use, mark in USE_MARKS.items():
        counts = [0] * (2 * last)
        for row in rows:
            if row.use == use and row.error is not None:
                counts[min(max(floor(row.error / STEP) + last, 0), 2 * last - 1)] += 1
        if any(counts):
            traces.append(_bars(USE_NAMES[use], mark.colour, counts, last))
    ticks = [-60, -40, -20, 0, 20, 40, 60]
    words = ["≤ −60", "−40", "−20", "0", "+20", "+40", "≥ +60"]
    x = axis("predicted / measured − 1 (%)", tickvals=ticks, ticktext=words, range=[-66, 66])
    most = max((sum(bars) for bars in zip(*(trace["y"] for trace in traces), strict=True)), default=0)
    whole = {"dtick": 1} if most <= MOST_SINGLE else {"tickformat": ",d"}
    return figure(traces, x, axis("rows", rangemode="tozero", **whole), 380, barmode="stack", bargap=0.06)


def series_figure(rows: Sequence[ComparedRow]) -> Figure:
    """Times of one chart's rows over size, a line per series with its 90 % band; below them the errors, if any."""
    lines, far = _lines(rows), _farthest(rows)
    traces = [
        trace
        for place, (name, several) in enumerate(lines.items())
        for trace in _series(name, several, PlanMark(colour=COLOURS[place % 8], symbol=SYMBOLS[place % 8]), far)
    ]
    sizes = [stands.size for several in lines.values() for stands, _ in several]
    ends = min(sizes) / 1.4, max(sizes) * 1.4
    seconds = [row.measured_s for row in rows if row.measured_s]
    seconds += [made.predicted_s for row in rows if (made := row.prediction) is not None]
    title = standing(rows[0].row).size_title
    x = axis(title, **_sizes_axis(ends, title))
    y = axis("time", **_seconds_axis((min(seconds) / 1.5, max(seconds) * 1.5)))
    if all(row.error is None for row in rows):
        return figure([trace for trace in traces if "yaxis" not in trace], x, y, 420)
    below = axis("error (%)", **_errors_axis(far), domain=[0.0, 0.29], anchor="x")
    return figure(traces, {**x, "anchor": "y2"}, {**y, "domain": [0.37, 1.0]}, 600, yaxis2=below)


def _lines(rows: Sequence[ComparedRow]) -> dict[str, list[tuple[RowPosition, ComparedRow]]]:
    """The series of a chart, each along its sizes."""
    placed = [(standing(row.row), row) for row in rows]
    out: dict[str, list[tuple[RowPosition, ComparedRow]]] = {}
    for stands, row in sorted(placed, key=lambda each: (each[0].order, each[0].line, each[0].size)):
        out.setdefault(stands.line, []).append((stands, row))
    return out


def _series(
    name: str, several: Sequence[tuple[RowPosition, ComparedRow]], mark: PlanMark, far: float
) -> list[PlotTrace]:
    """A band, a line of predictions, points of measurements (open where known pathologies), and their errors, those
    beyond `far` at the edge."""
    made = {stands.size: row.prediction for stands, row in several if row.prediction is not None}
    name = name if made else f"{name} (no model)"
    common: PlotTrace = {"type": "scatter", "legendgroup": name, "showlegend": False, "name": name}
    traces = [common | each for each in _predicted(made, mark.colour)]
    for is_open in (False, True):
        shown = [(stands.size, row) for stands, row in several if (row.use == "pathology") == is_open]
        if not shown:
            continue
        sizes, words = [size for size, _ in shown], [_hover(row) for _, row in shown]
        symbol = mark.symbol + ("-open" if is_open else "")
        drawn = points(name, sizes, [row.measured_s for _, row in shown], mark.colour, symbol, words)
        drawn |= common | {"hovertemplate": f"%{{hovertext}}<extra>{text(name)}</extra>"}
        legend = not is_open or all(row.use == "pathology" for _, row in several)
        traces.append(drawn | {"showlegend": legend})
        traces.append(drawn | {"y": [clipped(row.error, far) for _, row in shown], "yaxis": "y2"})
    return traces


def _predicted(made: Mapping[float, Prediction], colour: str) -> list[PlotTrace]:
    """The line of predictions by size, above its band."""
    known = [(size, each) for size, each in made.items() if isfinite(each.low_s) and isfinite(each.high_s)]
    if len(made) == 1:
        return [_dash(*next(iter(made.items())), colour, bool(known))]
    sizes = [size for size, _ in known]
    band = {
        "mode": "lines",
        "x": [*sizes, *reversed(sizes)],
        "y": [*(each.high_s for _, each in known), *(each.low_s for _, each in reversed(known))],
        "fill": "toself",
        "fillcolor": colour + BAND,
        "line": {"width": 0, "color": colour},
        "hoverinfo": "skip",
    }
    line = {
        "mode": "lines",
        "x": list(made),
        "y": [each.predicted_s for each in made.values()],
        "line": {"color": colour, "width": 1.8},
        "hoverinfo": "skip",
    }
    return [*([band] if len(known) > 1 else []), *([line] if made else [])]


def _dash(size: float, made: Prediction, colour: str, has_interval: bool) -> PlotTrace:
    """A single prediction: a short dash, and its interval as an error bar."""
    bar = error_bars([(made.low_s, made.predicted_s, made.high_s)], color=colour + BAR, thickness=6, width=0)
    return {
        "mode": "markers",
        "x": [size],
        "y": [made.predicted_s],
        "marker": {"symbol": "line-ew", "size": 22, "color": colour, "line": {"color": colour, "width": 2.5}},
        "hoverinfo": "skip",
        **({"error_y": bar} if has_interval else {}),
    }


def _hover(held: ComparedRow) -> str:
    parts = [f"<b>{text(row_name(held.row))}</b>"]
    if held.measured_s is not None:
        parts.append(f"measured {quantity(held.measured_s, 's')}")
    made = held.prediction
    if made is not None:
        between = f" ({quantity(made.low_s, 's')} to {quantity(made.high_s, 's')})" if isfinite(made.low_s) else ""
        parts.append(f"predicted {quantity(made.predicted_s, 's')}{between}: {signed(held.error)}")
        if made.harness_s:
            parts.append(f"of it {quantity(made.harness_s, 's')} of the measuring program")
    if held.why:
        parts.append(text(held.reason))
    return "<br>".join(_wrapped(line) for line in parts)


def _wrapped(words: str, width: int = 70) -> str:
    """Lines that a box beside the pointer has room for."""
    lines = [""]
    for word in words.split(" "):
        if len(lines[-1]) + len(word) > width and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "<br>".join(lines)


def _bars(name: str, colour: str, counts: Sequence[int], last: int) -> PlotTrace:
    step = 100 * STEP
    lows = [round(step * (place - last)) for place in range(len(counts))]
    return {
        "type": "bar",
        "name": name,
        "x": [low + step / 2 for low in lows],
        "y": list(counts),
        "width": step * 0.94,
        "marker": {"color": colour},
        "hovertext": [
            f"{low:+d} to {low + round(step):+d} %: {count:,}".replace("-", "−").replace("+0", "0")
            for low, count in zip(lows, counts, strict=True)
        ],
        "hovertemplate": f"%{{hovertext}}<extra>{name}</extra>",
    }


def clipped(error: float | None, far: float) -> float | None:
    """An error in per cent, at most `far` from zero."""
    return None if error is None else min(max(100 * error, -far), far)


def _farthest(rows: Sequence[ComparedRow]) -> float:
    """How far an axis of errors reaches, per cent: as far as there are rows that count in averages."""
    errors = [100 * abs(row.error) for row in rows if row.error is not None and row.is_averaged]
    return min(max(LEAST_ERROR, *errors, 0.0) * 1.1, MOST_ERROR)


def _errors_axis(far: float) -> dict[str, Any]:
    step = 50 if far > 75 else 25 if far > 40 else 10
    ticks = [tick for tick in range(-100, 101, step) if abs(tick) <= far]
    words = [f"{tick:+d}".replace("-", "−") if tick else "0" for tick in ticks]
    reach = 1.06 * far  # room for points at the edge
    return {"range": [-reach, reach], "tickvals": ticks, "ticktext": words, "zeroline": True, "zerolinecolor": LINE}


def _seconds_axis(ends: tuple[float, float]) -> dict[str, Any]:
    ends = _from_decade(*ends), ends[1]
    ticks = decades(*ends)
    words = [quantity(tick, "s") for tick in ticks]
    return {"type": "log", "tickvals": ticks, "ticktext": words, "range": [log10(end) for end in ends]}


def _sizes_axis(ends: tuple[float, float], title: str) -> dict[str, Any]:
    ticks = powers_of_two(*ends, MAX_TICKS)
    words = [binary(tick) if title == BYTES else number(tick) for tick in ticks]
    return {"type": "log", "tickvals": ticks, "ticktext": words, "range": [log10(end) for end in ends]}


def _from_decade(low: float, high: float) -> float:
    """Where an axis of seconds begins: at the decade below, if only decades are named and the next one is far up."""
    below = 10.0 ** floor(log10(low))
    return below / 1.05 if high / low > 1e3 and low < below * 10 / 3 else low
