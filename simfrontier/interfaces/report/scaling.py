"""Charts of rate, step time and scaling efficiency against the number of devices, with 90 % of the
samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import log10
from typing import Any

from simfrontier.interfaces.report import theme
from simfrontier.interfaces.report.phrases import number
from simfrontier.interfaces.report.view import RATE, Row, Rows, StudyView

_HEIGHT = 460
_BAND_OPACITY = 0.13
_REACH = 0.5  # how far beyond the simulated values the axis follows published points, in lengths of their range
_ZOOM_FROM = 0.4  # an axis starts at zero unless the smallest value is above this share of the largest
_EFFICIENCY = "scaling_efficiency"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPoint:
    """A published rate or step time of a plan at a size, in the unit of the chart, with its description in words."""

    plan: str
    devices: int
    value: float
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Banded:
    """A quantity that is drawn with 90 % of its samples and its nominal value: the names of its columns, its unit."""

    median: str
    low: str
    high: str
    nominal: str
    unit: str


def rates(view: StudyView, published: Sequence[PublishedPoint] = ()) -> theme.Figure:
    """Plot rates against the number of devices, one line per plan through the medians of its samples with their 90 %
    interval, and a faint mark at the nominal value; `published` figures are stars, with their values in the legend."""
    unit = view.rate_unit.partition(" ")[0]
    shown = _Banded(median=RATE, low=f"{RATE}_p05", high=f"{RATE}_p95", nominal=f"{RATE}_nominal", unit=unit)
    return _banded(view, shown, _lines(view, RATE, view.rate_unit, f"%{{y:.4~g}} {unit}"), published)


def step_times(view: StudyView) -> theme.Figure:
    """Plot step times in seconds against the number of devices, in the same way as `rates`."""
    names = {end: f"step_time_{column}_s" for end, column in (("low", "p05"), ("high", "p95"), ("nominal", "nominal"))}
    lines = _lines(view, "step_time_s", "step time (s)", "%{y:.4~g} s")
    return _banded(view, _Banded(median="step_time_s", unit="s", **names), lines)


def efficiencies(view: StudyView) -> theme.Figure:
    """Plot the scaling efficiency in per cent against the number of devices, one line per plan."""
    return _lines(view, _EFFICIENCY, "scaling efficiency (%)", "%{y:.1f} %", 100.0)


def zoomed(rows: Rows) -> bool:
    """Return whether the vertical axes start near the smallest value: only if there are several sizes, and this is not
    far below the largest value in both charts."""
    if all(len(own) < 2 for own in rows.values()):
        return False
    for column in (RATE, _EFFICIENCY):
        values = [row[column] for own in rows.values() for row in own if row["fits"]]
        if min(values) <= _ZOOM_FROM * max(values):
            return False
    return True


def _lines(view: StudyView, column: str, title: str, hover: str, scale: float = 1.0) -> theme.Figure:
    traces = []
    for plan, rows in view.rows.items():
        fitting, mark = [row for row in rows if row["fits"]], view.marks[plan]
        if fitting:
            traces.append(
                theme.scatter(
                    plan,
                    [row["devices"] for row in fitting],
                    [scale * row[column] for row in fitting],
                    "lines+markers",
                    legendgroup=plan,
                    line={"color": mark.colour, "width": 2.5},
                    marker={"symbol": mark.symbol, "size": 9, "color": mark.colour},
                    hovertemplate=f"<b>{escape(plan)}</b><br>%{{x:,}} {view.device}s<br>{hover}<extra></extra>",
                )
            )
    sizes = list(view.sizes)
    ticks: dict[str, Any] = {"type": "log", "tickvals": sizes, "ticktext": [f"{size:,}" for size in sizes]}
    if len(sizes) == 1:  # an axis that fits itself to one size would pull its marks far apart
        ticks["range"] = [log10(sizes[0]) - 0.5, log10(sizes[0]) + 0.5]
    x = theme.axis(f"{view.device}s (log scale)", **ticks)
    is_zoomed = zoomed(view.rows)
    named = f"{title}, not from zero" if is_zoomed else title
    return theme.figure(traces, x, theme.axis(named, rangemode="normal" if is_zoomed else "tozero"), _HEIGHT)


def _banded(
    view: StudyView, shown: _Banded, lines: theme.Figure, published: Sequence[PublishedPoint] = ()
) -> theme.Figure:
    """Plot the lines; hiding a plan's line also hides the 90 % band of its samples, the faint mark at the nominal
    value, and its published values."""
    behind, before = [], []
    for plan, rows in view.rows.items():
        known, mark = [row for row in rows if row[shown.low]], view.marks[plan]
        if known:
            behind.append(_band(plan, known, mark.colour, shown, len(view.sizes) == 1))
            behind.append(_nominal(plan, known, mark, view.device, shown))
        if points_of := [point for point in published if point.plan == plan]:
            before.append(_published(plan, points_of, mark.colour))
    layout = lines["layout"]
    if before:  # stars far outside would press all else together; their values stand in the legend
        simulated = [value for trace in (*behind, *lines["data"]) for value in trace["y"]]
        reach = _REACH * (max(simulated) - min(simulated))
        clip = {"clipmin": min(simulated) - reach, "clipmax": max(simulated) + reach}
        layout = {**layout, "yaxis": {**layout["yaxis"], "autorangeoptions": clip}}
    return {"data": [*behind, *lines["data"], *before], "layout": layout}


def _band(plan: str, rows: Sequence[Row], colour: str, shown: _Banded, is_one: bool) -> theme.PlotTrace:
    """Return the range of 90 % of the samples of a plan: an area, or a bar if there is only one size."""
    sizes = [row["devices"] for row in rows]
    fixed: dict[str, Any] = {"legendgroup": plan, "showlegend": False, "hoverinfo": "skip"}
    if is_one:
        ends = [(row[shown.low], row[shown.median], row[shown.high]) for row in rows]
        bars, medians = theme.error_bars(ends, thickness=2, width=4, color=colour), [median for _, median, _ in ends]
        return theme.scatter(plan, sizes, medians, marker={"color": colour}, error_y=bars, **fixed)
    edge = [*(row[shown.low] for row in rows), *(row[shown.high] for row in reversed(rows))]
    look = {"fill": "toself", "fillcolor": theme.faint(colour, _BAND_OPACITY), "line": {"width": 0}}
    return theme.scatter(plan, [*sizes, *reversed(sizes)], edge, "lines", **look, **fixed)


def _nominal(plan: str, rows: Sequence[Row], mark: theme.PlanMark, device: str, shown: _Banded) -> theme.PlotTrace:
    """Return the nominal values (no variation between devices, no model errors): small hollow marks, with the sampled
    values in the hover text."""
    words = [
        f"<b>{escape(plan)}</b>, {row['devices']:,} {device}s<br>nominal: {number(row[shown.nominal])} {shown.unit}<br>"
        f"median: {number(row[shown.median])} {shown.unit} "
        f"(90 % of the samples {number(row[shown.low])} to {number(row[shown.high])})"
        for row in rows
    ]
    return theme.points(
        plan,
        [row["devices"] for row in rows],
        [row[shown.nominal] for row in rows],
        theme.faint(mark.colour, 0.55),
        "line-ew-open",
        words,
        {"size": 9, "line": {"width": 1.5}},
        legendgroup=plan,
        showlegend=False,
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _published(plan: str, shown: Sequence[PublishedPoint], colour: str) -> theme.PlotTrace:
    return theme.points(
        f"{plan}, published: {', '.join(number(point.value) for point in shown)}",
        [point.devices for point in shown],
        [point.value for point in shown],
        colour,
        "star",
        [point.words for point in shown],
        {"size": 15, "line": {"width": 1.5, "color": theme.INK}},
        legendgroup=plan,
        hovertemplate="%{hovertext}<extra></extra>",
    )
