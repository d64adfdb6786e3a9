"""Charts and pages that compare measured rows with predictions: residuals, and times over message size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape as text
from math import log10
from textwrap import wrap
from typing import Any

from simfrontier.answers import accuracy
from simfrontier.answers.study import versions
from simfrontier.core.collectives import Calibration
from simfrontier.inputs.measured import CallRow, Row
from simfrontier.interfaces.report import theme
from simfrontier.interfaces.report.phrases import NOTHING, binary, exactly, number, percent, quantity, signed
from simfrontier.interfaces.report.render import page_of, said
from simfrontier.interfaces.report.rows import MESSAGE_BYTES, RowPosition, charts_of, row_name, standing
from simfrontier.interfaces.report.table import Table
from simfrontier.interfaces.report.theme import line

USE_MARKS: Mapping[accuracy.Use, theme.PlanMark] = {
    "fitted": theme.PlanMark(colour="#0072B2", symbol="circle"),
    "left out": theme.PlanMark(colour="#009E73", symbol="diamond"),
    "held": theme.PlanMark(colour="#D55E00", symbol="square"),
    "pathology": theme.PlanMark(colour="#7F7F7F", symbol="circle-open"),
}
USE_NAMES: Mapping[accuracy.Use, str] = {
    "fitted": "fitted",
    "left out": "left out",
    "held": "held",
    "pathology": "known pathology, not averaged",
}
LEVELS = ((1.0, "measured = predicted", "solid"), (1.1, "± 10 %", "dash"), (1.25, "± 25 %", "dot"))
STEP, FARTHEST = 5.0, 60.0  # per cent, of the histogram; errors beyond are counted in its last bars
FAR = 60.0  # per cent that the chart of errors over size shows at most; farther points lie on its edge
MAX_TICKS = 12
LEAST_ERROR, MOST_ERROR = 30.0, 100.0  # per cent that the axis of errors shows at least and at most
BAND, BAR = 0.16, 0.35  # opacity of a band and of a bar
SERIES_TICKS = 8


def agreement_figure(rows: Sequence[accuracy.Residual[Row]]) -> theme.Figure:
    """Plot measured against predicted times of the rows that have both, on two logarithmic axes (seconds)."""
    known = [row for row in rows if row.measured and row.prediction]
    seconds = [s for row in known for s in (row.measured, row.prediction and row.prediction.value) if s]
    ends = min(seconds) / 1.5, max(seconds) * 1.5
    values = [None if row.prediction is None else row.prediction.value for row in known]
    traces = _points_by_use(known, values, [row.measured for row in known], list(map(hover, known)))
    x, y = (theme.axis(f"{which} time (s)", **theme.LOG_SECONDS) for which in ("predicted", "measured"))
    return theme.figure([*_level_lines(ends), *traces], x, y, 540)


def errors_figure(rows: Sequence[accuracy.Residual[Row]]) -> theme.Figure:
    """Plot a histogram of the errors of rows, stacked by whether the row was used in the fits."""
    traces = []
    for use, mark in USE_MARKS.items():
        errors = [clipped(row.error, FARTHEST) for row in rows if row.use == use and row.error is not None]
        if errors:
            bins = {"start": -FARTHEST, "end": FARTHEST + STEP, "size": STEP}
            trace = {"type": "histogram", "name": USE_NAMES[use], "x": errors, "xbins": bins}
            words = f"%{{x}} %: %{{y:,}}<extra>{USE_NAMES[use]}</extra>"
            traces.append({**trace, "marker": {"color": mark.colour}, "hovertemplate": words})
    x = theme.axis(f"predicted / measured − 1 (%), those beyond ± {FARTHEST:g} % in the last bars")
    return theme.figure(traces, x, theme.axis("rows"), 380, barmode="stack", bargap=0.06)


def residual_figure(rows: Sequence[accuracy.Residual[CallRow]]) -> theme.Figure:
    """Plot the error of every measured point over its message size in bytes, on a logarithmic axis."""
    known = [row for row in rows if row.error is not None]
    sizes = [row.row.num_bytes for row in known]
    words = [f"{text(row_name(row.row))}: {signed(row.error)}" for row in known]
    traces = _points_by_use(known, sizes, [clipped(row.error, FAR) for row in known], words)
    ticks = theme.powers_of_two(min(sizes), max(sizes), MAX_TICKS)
    x = theme.axis("message (bytes)", type="log", tickvals=ticks, ticktext=[binary(tick) for tick in ticks])
    y = theme.axis(
        "predicted / measured − 1 (%)", range=[-1.05 * FAR, 1.05 * FAR], zeroline=True, zerolinecolor=theme.LINE
    )
    return theme.figure(traces, x, y, 420)


def _points_by_use(
    rows: Sequence[accuracy.Residual[Any]], x: Sequence[float | None], y: Sequence[float | None], words: Sequence[str]
) -> list[theme.PlotTrace]:
    """Return the points of rows, marked by whether the row was used in the fits."""
    look, traces = {"size": 7, "opacity": 0.75}, []
    for use, mark in USE_MARKS.items():
        if own := [place for place, row in enumerate(rows) if row.use == use]:
            across, up, told = ([values[place] for place in own] for values in (x, y, words))
            traces.append(theme.points(USE_NAMES[use], across, up, mark.colour, mark.symbol, told, look))  # type: ignore[arg-type]
    return traces


def clipped(error: float | None, far: float) -> float | None:
    """Return an error in per cent, clipped to ±`far`."""
    return None if error is None else min(max(100 * error, -far), far)


def hover(residual: accuracy.Residual[Row]) -> str:
    """Return the hover text of a row: its measured and its predicted value."""
    parts = [f"<b>{text(row_name(residual.row))}</b>"]
    if residual.measured is not None:
        parts.append(f"measured {quantity(residual.measured, 's')}")
    made = residual.prediction
    if made is not None:
        between = f" ({quantity(made.low, 's')} to {quantity(made.high, 's')})" if made.has_interval else ""
        parts.append(f"predicted {quantity(made.value, 's')}{between}: {signed(residual.error)}")
        if made.harness_s:
            parts.append(f"of it {quantity(made.harness_s, 's')} of the measuring program")
    if residual.why:
        parts.append(text(residual.reason))
    return "<br>".join("<br>".join(wrap(line, 70)) for line in parts)


def _level_lines(ends: tuple[float, float]) -> list[theme.PlotTrace]:
    """Return lines of constant ratio of measured to predicted time, between the ends of the axes."""
    return [
        line(name, ends, [end * each for end in ends], dash, legendgroup=name, showlegend=place == 0)
        for factor, name, dash in LEVELS
        for place, each in enumerate(dict.fromkeys((factor, 1 / factor)))
    ]


def series_figure(rows: Sequence[accuracy.Residual[Row]]) -> theme.Figure:
    """Plot the times of one chart's rows over size, a line per series with its 90 % band; below them the errors, if
    there are predictions."""
    lines, far = _lines(rows), _farthest(rows)
    looks = theme.marks(list(lines))
    traces = [trace for name, several in lines.items() for trace in _series(name, several, looks[name], far)]
    sizes = [stands.size for several in lines.values() for stands, _ in several]
    ends = min(sizes) / 1.4, max(sizes) * 1.4
    title = standing(rows[0].row).size_title
    x = theme.axis(title, **_sizes_axis(ends, title))
    y = theme.axis("time (s)", **theme.LOG_SECONDS)
    if all(row.error is None for row in rows):
        return theme.figure([trace for trace in traces if "yaxis" not in trace], x, y, 420)
    below = theme.axis("error (%)", **_errors_axis(far), domain=[0.0, 0.29], anchor="x")
    return theme.figure(traces, {**x, "anchor": "y2"}, {**y, "domain": [0.37, 1.0]}, 600, yaxis2=below)


def _lines(rows: Sequence[accuracy.Residual[Row]]) -> dict[str, list[tuple[RowPosition, accuracy.Residual[Row]]]]:
    """Return the series of a chart by name, the rows of each in ascending order of size."""
    placed = [(standing(row.row), row) for row in rows]
    out: dict[str, list[tuple[RowPosition, accuracy.Residual[Row]]]] = {}
    for stands, row in sorted(placed, key=lambda each: (each[0].order, each[0].line, each[0].size)):
        out.setdefault(stands.line, []).append((stands, row))
    return out


def _series(
    name: str, several: Sequence[tuple[RowPosition, accuracy.Residual[Row]]], mark: theme.PlanMark, far: float
) -> list[theme.PlotTrace]:
    """Return the plot traces of a series: the 90 % band, the line of predictions, the measured points (hollow for known
    pathologies), and their errors; errors beyond `far` are drawn at the edge."""
    made = {stands.size: row.prediction for stands, row in several if row.prediction is not None}
    name = name if made else f"{name} (no model)"
    common: theme.PlotTrace = {"legendgroup": name, "showlegend": False}
    traces = [each | common for each in _predicted(name, made, mark.colour)]
    for is_open in (False, True):
        shown = [(stands.size, row) for stands, row in several if (row.use == "pathology") == is_open]
        if not shown:
            continue
        sizes, words = [size for size, _ in shown], [hover(row) for _, row in shown]
        symbol = mark.symbol + ("-open" if is_open else "")
        drawn = theme.points(name, sizes, [row.measured for _, row in shown], mark.colour, symbol, words)
        drawn |= common | {"hovertemplate": f"%{{hovertext}}<extra>{text(name)}</extra>"}
        legend = not is_open or all(row.use == "pathology" for _, row in several)
        traces.append(drawn | {"showlegend": legend})
        traces.append(drawn | {"y": [clipped(row.error, far) for _, row in shown], "yaxis": "y2"})
    return traces


def _predicted(name: str, made: Mapping[float, accuracy.Prediction], colour: str) -> list[theme.PlotTrace]:
    """Return the line of predictions over size with its 90 % band; a single prediction is a dash with its interval as
    an error bar."""
    known = [(size, each) for size, each in made.items() if each.has_interval]
    sizes, values = [size for size, _ in known], [each.value for each in made.values()]
    if len(made) == 1:
        mark = {"symbol": "line-ew", "size": 22, "color": colour, "line": {"color": colour, "width": 2.5}}
        ends = [(each.low, each.value, each.high) for _, each in known]
        dash = theme.scatter(name, list(made), values, marker=mark, hoverinfo="skip")
        bar = theme.error_bars(ends, color=theme.faint(colour, BAR), thickness=6, width=0)
        return [dash | ({"error_y": bar} if known else {})]
    edge = [*(each.high for _, each in known), *(each.low for _, each in reversed(known))]
    look = {"fill": "toself", "fillcolor": theme.faint(colour, BAND), "line": {"width": 0, "color": colour}}
    band = theme.scatter(name, [*sizes, *reversed(sizes)], edge, "lines", hoverinfo="skip", **look)
    line = theme.scatter(name, list(made), values, "lines", line={"color": colour, "width": 1.8}, hoverinfo="skip")
    return [*([band] if len(known) > 1 else []), *([line] if made else [])]


def _farthest(rows: Sequence[accuracy.Residual[Row]]) -> float:
    """Return the half-range of an error axis in per cent: the largest error of the rows that count in averages."""
    errors = [100 * abs(row.error) for row in rows if row.error is not None and row.is_averaged]
    return min(max(LEAST_ERROR, *errors, 0.0) * 1.1, MOST_ERROR)


def _errors_axis(far: float) -> dict[str, Any]:
    step = 50 if far > 75 else 25 if far > 40 else 10
    ticks = [tick for tick in range(-100, 101, step) if abs(tick) <= far]
    words = [f"{tick:+d}".replace("-", "−") if tick else "0" for tick in ticks]
    reach = 1.06 * far  # room for points at the edge
    return {
        "range": [-reach, reach],
        "tickvals": ticks,
        "ticktext": words,
        "zeroline": True,
        "zerolinecolor": theme.LINE,
    }


def _sizes_axis(ends: tuple[float, float], title: str) -> dict[str, Any]:
    ticks = theme.powers_of_two(*ends, SERIES_TICKS)
    words = [binary(tick) if title == MESSAGE_BYTES else number(tick) for tick in ticks]
    return {"type": "log", "tickvals": ticks, "ticktext": words, "range": [log10(end) for end in ends]}


def validation_page(done: accuracy.Validation) -> str:
    """Return the page of a validation as text; the same tables and models give the same text."""
    known = {table.name: [row for row in done.of(table.name) if row.error is not None] for table in done.tables}
    drawn = {done.titles[name]: rows for name, rows in known.items() if rows}
    every = {"all tables": [row for rows in drawn.values() for row in rows]} if len(drawn) > 1 else {}
    charts = [(table.title, charts_of(done.of(table.name))) for table in done.tables]
    return page_of(
        "validate",
        done=done,
        uses=USE_NAMES,
        agreement={name: agreement_figure(rows) for name, rows in drawn.items()},
        errors={name: errors_figure(rows) for name, rows in (every | drawn).items()},
        sizes=[(title, {name: series_figure(rows) for name, rows in own.items()}) for title, own in charts if own],
        versions=versions("scipy"),
    )


def parameters_table(done: accuracy.FitOutcome) -> Table:
    """Return the table of the fitted parameters with their intervals."""

    def cells(one: accuracy.Parameter) -> tuple[str, ...]:
        known = exactly(one.file_value, one.unit)
        if one.value is None or one.interval is None:
            return one.key, NOTHING, "not shown by the data", known
        low, high = (exactly(end, one.unit) for end in one.interval)
        return one.key, exactly(one.value, one.unit), f"{low} to {high}", known

    heads = ("parameter", "value", "90 % interval", "in the file")
    return Table(None, heads, list(map(cells, done.parameters)), left=heads[:1])


def errors_table(done: accuracy.FitOutcome) -> Table:
    """Return the table of the errors of a fit, a row for each entry of its `lines`."""
    rows = []
    for one in done.lines:
        shares = (one.far.mean_abs_error, one.far.p90_abs_error, one.far.worst_abs_error)
        name = "".join(said("calibrate", "line", one))
        rows.append((name, f"{one.far.points:,}", *map(percent, shares), f"{one.far.residual_sd:.3f}"))
    return Table(None, ("", "points", "mean error", "90th pct", "farthest", "spread"), rows, left=("",))


def calibration_page(done: accuracy.FitOutcome, calibration: Calibration) -> str:
    """Return the page of a fit as text; the same data give the same text."""
    return page_of(
        "calibrate",
        done=done,
        calibration=calibration,
        agreement=agreement_figure(done.points),
        residuals=residual_figure(done.points),
        parameters=parameters_table(done),
        errors=errors_table(done),
        versions=versions("scipy"),
    )
