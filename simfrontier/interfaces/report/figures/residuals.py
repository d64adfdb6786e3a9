"""Charts of residuals: measured against predicted, errors, and errors over size, with what is at the pointer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape as text
from textwrap import wrap
from typing import Any

from simfrontier.answers.accuracy import PredictedRun, Residual, Use
from simfrontier.inputs.measured import CallRow, Row
from simfrontier.interfaces.report.findings.rows import row_name
from simfrontier.interfaces.report.phrases import binary, percent, quantity, signed
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
    line,
    marks,
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
STEP, FARTHEST = 5.0, 60.0  # per cent, of the histogram; errors beyond are counted in its last bars
FAR = 60.0  # per cent that the chart of errors over size shows at most; farther points lie on its edge
MAX_TICKS = 12


def agreement_figure(rows: Sequence[Residual[Row]]) -> Figure:
    """Measured against predicted times of rows that have both, on two logarithmic axes of seconds."""
    known = [row for row in rows if row.measured and row.prediction]
    seconds = [s for row in known for s in (row.measured, row.prediction and row.prediction.value) if s]
    ends = min(seconds) / 1.5, max(seconds) * 1.5
    values = [None if row.prediction is None else row.prediction.value for row in known]
    traces = _points_by_use(known, values, [row.measured for row in known], list(map(hover, known)))
    x, y = (axis(f"{which} time (s)", **LOG_SECONDS) for which in ("predicted", "measured"))
    return figure([*_level_lines(ends), *traces], x, y, 540)


def errors_figure(rows: Sequence[Residual[Row]]) -> Figure:
    """Histogram of the errors of rows, stacked by whether the fits had seen them."""
    traces = []
    for use, mark in USE_MARKS.items():
        errors = [clipped(row.error, FARTHEST) for row in rows if row.use == use and row.error is not None]
        if errors:
            bins = {"start": -FARTHEST, "end": FARTHEST + STEP, "size": STEP}
            trace = {"type": "histogram", "name": USE_NAMES[use], "x": errors, "xbins": bins}
            words = f"%{{x}} %: %{{y:,}}<extra>{USE_NAMES[use]}</extra>"
            traces.append({**trace, "marker": {"color": mark.colour}, "hovertemplate": words})
    x = axis(f"predicted / measured − 1 (%), those beyond ± {FARTHEST:g} % in the last bars")
    return figure(traces, x, axis("rows"), 380, barmode="stack", bargap=0.06)


def residual_figure(rows: Sequence[Residual[CallRow]]) -> Figure:
    """Error of every point over its bytes, on a logarithmic axis."""
    known = [row for row in rows if row.error is not None]
    sizes = [row.row.num_bytes for row in known]
    words = [f"{text(row_name(row.row))}: {signed(row.error)}" for row in known]
    traces = _points_by_use(known, sizes, [clipped(row.error, FAR) for row in known], words)
    ticks = powers_of_two(min(sizes), max(sizes), MAX_TICKS)
    x = axis("message (bytes)", type="log", tickvals=ticks, ticktext=[binary(tick) for tick in ticks])
    y = axis("predicted / measured − 1 (%)", range=[-1.05 * FAR, 1.05 * FAR], zeroline=True, zerolinecolor=LINE)
    return figure(traces, x, y, 420)


def _points_by_use(
    rows: Sequence[Residual[Any]], x: Sequence[float | None], y: Sequence[float | None], words: Sequence[str]
) -> list[PlotTrace]:
    """Points of rows, marked by whether the fits had seen them."""
    look, traces = {"size": 7, "opacity": 0.75}, []
    for use, mark in USE_MARKS.items():
        if own := [place for place, row in enumerate(rows) if row.use == use]:
            across, up, told = ([values[place] for place in own] for values in (x, y, words))
            traces.append(points(USE_NAMES[use], across, up, mark.colour, mark.symbol, told, look))  # type: ignore[arg-type]
    return traces


def runs_figure(rows: Sequence[PredictedRun]) -> Figure:
    """Measured against predicted seconds of a step, each run with its 90 % interval, on two logarithmic axes."""
    seconds = [s for row in rows for s in (row.step_s, row.step.measured_s)]
    ends = min(seconds) / 1.4, max(seconds) * 1.4
    traces = _level_lines(ends)
    for machine, mark in marks(list(dict.fromkeys(row.row["machine"] for row in rows))).items():
        some = [row for row in rows if row.row["machine"] == machine]
        bands = [(row.step_s / row.factor, row.step_s, row.step_s * row.factor) for row in some]
        bars = error_bars(bands, color=faint(mark.colour, 0.25), thickness=1, width=0)
        predicted, measured = [row.step_s for row in some], [row.step.measured_s for row in some]
        words = [_run_hover(row) for row in some]
        look = {"size": 7, "opacity": 0.8}
        traces.append(points(machine, predicted, measured, mark.colour, mark.symbol, words, look, error_x=bars))
    x, y = (axis(f"{which} step (s)", **LOG_SECONDS) for which in ("predicted", "measured"))
    return figure(traces, x, y, 620)


def clipped(error: float | None, far: float) -> float | None:
    """An error in per cent, at most `far` from zero."""
    return None if error is None else min(max(100 * error, -far), far)


def hover(residual: Residual[Row]) -> str:
    """Text at the pointer: what was measured and predicted of a row."""
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


def _level_lines(ends: tuple[float, float]) -> list[PlotTrace]:
    """Lines of equal ratio of measured to predicted, between the ends of the axes."""
    return [
        line(name, ends, [end * each for end in ends], dash, legendgroup=name, showlegend=place == 0)
        for factor, name, dash in LEVELS
        for place, each in enumerate(dict.fromkeys((factor, 1 / factor)))
    ]


def _run_hover(residual: PredictedRun) -> str:
    run, made = residual.row, residual.prediction
    unknown = "; ".join(each.text for each in residual.job.unknown)
    lines = [
        run.title,
        f"{run['system']}; batch {run['batch'] or '–'}, micro-batch {run['micro_batch'] or '–'}, sequence {run['seq']}",
        f"measured {run.value:.4g}, predicted {made.value:.4g} ({made.low:.4g} to {made.high:.4g}) {run.unit}",
        f"error {signed(residual.error)}, interval ± {percent(residual.factor - 1)}",
        *([f"assumed: {unknown}"] if unknown else []),
    ]
    return "<br>".join(text(each) for each in lines)
