"""Charts of measured series: times over size with the 90 % bands of their predictions, and the errors below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape as text
from math import log10
from typing import Any

from simfrontier.answers.accuracy import Prediction, Residual
from simfrontier.inputs.measured import Row
from simfrontier.interfaces.report.figures.residuals import clipped, hover
from simfrontier.interfaces.report.findings.rows import BYTES, RowPosition, standing
from simfrontier.interfaces.report.phrases import binary, number
from simfrontier.interfaces.report.theme import (
    LINE,
    LOG_SECONDS,
    Figure,
    PlanMark,
    PlotTrace,
    axis,
    error_bars,
    faint,
    figure,
    marks,
    points,
    powers_of_two,
    scatter,
)

LEAST_ERROR, MOST_ERROR = 30.0, 100.0  # per cent that the axis of errors shows at least and at most
BAND, BAR = 0.16, 0.35  # opacity of a band and of a bar
MAX_TICKS = 8


def series_figure(rows: Sequence[Residual[Row]]) -> Figure:
    """Times of one chart's rows over size, a line per series with its 90 % band; below them the errors, if any."""
    lines, far = _lines(rows), _farthest(rows)
    looks = marks(list(lines))
    traces = [trace for name, several in lines.items() for trace in _series(name, several, looks[name], far)]
    sizes = [stands.size for several in lines.values() for stands, _ in several]
    ends = min(sizes) / 1.4, max(sizes) * 1.4
    title = standing(rows[0].row).size_title
    x = axis(title, **_sizes_axis(ends, title))
    y = axis("time (s)", **LOG_SECONDS)
    if all(row.error is None for row in rows):
        return figure([trace for trace in traces if "yaxis" not in trace], x, y, 420)
    below = axis("error (%)", **_errors_axis(far), domain=[0.0, 0.29], anchor="x")
    return figure(traces, {**x, "anchor": "y2"}, {**y, "domain": [0.37, 1.0]}, 600, yaxis2=below)


def _lines(rows: Sequence[Residual[Row]]) -> dict[str, list[tuple[RowPosition, Residual[Row]]]]:
    """The series of a chart, each along its sizes."""
    placed = [(standing(row.row), row) for row in rows]
    out: dict[str, list[tuple[RowPosition, Residual[Row]]]] = {}
    for stands, row in sorted(placed, key=lambda each: (each[0].order, each[0].line, each[0].size)):
        out.setdefault(stands.line, []).append((stands, row))
    return out


def _series(
    name: str, several: Sequence[tuple[RowPosition, Residual[Row]]], mark: PlanMark, far: float
) -> list[PlotTrace]:
    """A band, a line of predictions, points of measurements (open where known pathologies), and their errors, those
    beyond `far` at the edge."""
    made = {stands.size: row.prediction for stands, row in several if row.prediction is not None}
    name = name if made else f"{name} (no model)"
    common: PlotTrace = {"legendgroup": name, "showlegend": False}
    traces = [each | common for each in _predicted(name, made, mark.colour)]
    for is_open in (False, True):
        shown = [(stands.size, row) for stands, row in several if (row.use == "pathology") == is_open]
        if not shown:
            continue
        sizes, words = [size for size, _ in shown], [hover(row) for _, row in shown]
        symbol = mark.symbol + ("-open" if is_open else "")
        drawn = points(name, sizes, [row.measured for _, row in shown], mark.colour, symbol, words)
        drawn |= common | {"hovertemplate": f"%{{hovertext}}<extra>{text(name)}</extra>"}
        legend = not is_open or all(row.use == "pathology" for _, row in several)
        traces.append(drawn | {"showlegend": legend})
        traces.append(drawn | {"y": [clipped(row.error, far) for _, row in shown], "yaxis": "y2"})
    return traces


def _predicted(name: str, made: Mapping[float, Prediction], colour: str) -> list[PlotTrace]:
    """The line of predictions by size, above its band; of a single one a dash, with its interval as an error bar."""
    known = [(size, each) for size, each in made.items() if each.has_interval]
    sizes, values = [size for size, _ in known], [each.value for each in made.values()]
    if len(made) == 1:
        mark = {"symbol": "line-ew", "size": 22, "color": colour, "line": {"color": colour, "width": 2.5}}
        ends = [(each.low, each.value, each.high) for _, each in known]
        dash = scatter(name, list(made), values, marker=mark, hoverinfo="skip")
        bar = error_bars(ends, color=faint(colour, BAR), thickness=6, width=0)
        return [dash | ({"error_y": bar} if known else {})]
    edge = [*(each.high for _, each in known), *(each.low for _, each in reversed(known))]
    look = {"fill": "toself", "fillcolor": faint(colour, BAND), "line": {"width": 0, "color": colour}}
    band = scatter(name, [*sizes, *reversed(sizes)], edge, "lines", hoverinfo="skip", **look)
    line = scatter(name, list(made), values, "lines", line={"color": colour, "width": 1.8}, hoverinfo="skip")
    return [*([band] if len(known) > 1 else []), *([line] if made else [])]


def _farthest(rows: Sequence[Residual[Row]]) -> float:
    """Reach of an axis of errors, per cent: as far as there are rows that count in averages."""
    errors = [100 * abs(row.error) for row in rows if row.error is not None and row.is_averaged]
    return min(max(LEAST_ERROR, *errors, 0.0) * 1.1, MOST_ERROR)


def _errors_axis(far: float) -> dict[str, Any]:
    step = 50 if far > 75 else 25 if far > 40 else 10
    ticks = [tick for tick in range(-100, 101, step) if abs(tick) <= far]
    words = [f"{tick:+d}".replace("-", "−") if tick else "0" for tick in ticks]
    reach = 1.06 * far  # room for points at the edge
    return {"range": [-reach, reach], "tickvals": ticks, "ticktext": words, "zeroline": True, "zerolinecolor": LINE}


def _sizes_axis(ends: tuple[float, float], title: str) -> dict[str, Any]:
    ticks = powers_of_two(*ends, MAX_TICKS)
    words = [binary(tick) if title == BYTES else number(tick) for tick in ticks]
    return {"type": "log", "tickvals": ticks, "ticktext": words, "range": [log10(end) for end in ends]}
