"""Charts of rate, step time and scaling efficiency against the number of devices, with 90 % of the
samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from simfrontier.interfaces.report import theme
from simfrontier.interfaces.report.headline import rate_interval, step_interval
from simfrontier.interfaces.report.phrases import number
from simfrontier.interfaces.report.view import RATE, Row, Rows, StudyView

_HEIGHT = 460
_BAND_OPACITY = 0.13
_REACH = 0.06  # how far beyond the simulated values published ones are drawn, in lengths of their range
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
    if len(view.sizes) == 1:
        return _bars(view, shown, view.rate_unit, rate_interval, published)
    return _banded(view, shown, _lines(view, RATE, view.rate_unit, f"%{{y:.4~g}} {unit}"), published)


def step_times(view: StudyView) -> theme.Figure:
    """Plot step times in seconds against the number of devices, in the same way as `rates`."""
    names = {end: f"step_time_{column}_s" for end, column in (("low", "p05"), ("high", "p95"), ("nominal", "nominal"))}
    shown = _Banded(median="step_time_s", unit="s", **names)
    if len(view.sizes) == 1:
        return _bars(view, shown, "step time (s)", step_interval)
    return _banded(view, shown, _lines(view, "step_time_s", "step time (s)", "%{y:.4~g} s"))


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
    x = theme.axis(f"{view.device}s (log scale)", **ticks)
    is_zoomed = zoomed(view.rows)
    named = f"{title}, not from zero" if is_zoomed else title
    return theme.figure(traces, x, theme.axis(named, rangemode="normal" if is_zoomed else "tozero"), _HEIGHT)


def _banded(
    view: StudyView, shown: _Banded, lines: theme.Figure, published: Sequence[PublishedPoint] = ()
) -> theme.Figure:
    """Plot the lines; hiding a plan's line also hides the 90 % band of its samples, the faint mark at the nominal
    value, and its published values."""
    behind = []
    for plan, rows in view.rows.items():
        known, mark = [row for row in rows if row[shown.low]], view.marks[plan]
        if known:
            behind.append(_band(plan, known, mark.colour, shown))
            behind.append(_nominal(plan, known, mark, view.device, shown))
    simulated = [value for trace in (*behind, *lines["data"]) for value in trace["y"]]
    reach = _REACH * (max(simulated) - min(simulated))
    before: list[theme.PlotTrace] = []
    for plan, mark in view.marks.items():
        if points := [point for point in published if point.plan == plan]:
            apart = 0.7 * reach * len(before)  # arrows of plans do not cover each other
            ends = min(simulated) - reach + apart, max(simulated) + reach - apart
            before.append(_published(plan, points, mark.colour, ends))
    return {**lines, "data": [*behind, *lines["data"], *before]}


def _bars(
    view: StudyView,
    shown: _Banded,
    title: str,
    interval: Callable[[Row], tuple[float, float]],
    published: Sequence[PublishedPoint] = (),
) -> theme.Figure:
    """Plot the plans at the only size as bars from zero with the 90 % `interval` of each; `published` figures are stars
    in the row of their plan."""
    rows = [row for row in view.rows_at(view.largest) if row["fits"]]
    labels = [row["plan"] for row in rows]
    ends = [(low, row[shown.median], high) for row in rows for low, high in [interval(row)]]
    words = [
        f"<b>{escape(plan)}</b><br>{number(median)} {shown.unit}<br>90 % interval: {number(low)} to {number(high)}"
        for plan, (low, median, high) in zip(labels, ends, strict=True)
    ]
    look = {"error_x": theme.error_bars(ends, thickness=1.5, width=6, color=theme.INK), "showlegend": False}
    colours = [view.marks[plan].colour for plan in labels]
    traces = [theme.told_bars(title, labels, [median for _, median, _ in ends], colours, words, **look)]
    highest = max(high for *_, high in ends)
    for point in published:
        if point.plan in labels:
            star = _published(point.plan, [point], view.marks[point.plan].colour, (0.0, highest), theme.ACROSS)
            traces.append(star | {"x": star["y"], "y": [point.plan]})
    y = theme.axis("", **theme.rows(labels))
    return theme.figure(traces, theme.axis(title, rangemode="tozero"), y, 110 + 40 * len(rows), bargap=0.4)


def _band(plan: str, rows: Sequence[Row], colour: str, shown: _Banded) -> theme.PlotTrace:
    """Return the range of 90 % of the samples of a plan as an area."""
    sizes = [row["devices"] for row in rows]
    fixed: dict[str, Any] = {"legendgroup": plan, "showlegend": False, "hoverinfo": "skip"}
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


def _published(
    plan: str,
    shown: Sequence[PublishedPoint],
    colour: str,
    ends: tuple[float, float],
    arrows: tuple[str, str] = theme.UPRIGHT,
) -> theme.PlotTrace:
    """Return stars at published values; those beyond the ends of what was simulated are arrows there."""
    drawn, symbols = theme.within([point.value for point in shown], *ends, arrows)
    return theme.points(
        f"{plan}, published: {', '.join(number(point.value) for point in shown)}",
        [point.devices for point in shown],
        drawn,
        colour,
        "star",
        [f"{point.words}: {number(point.value)}" for point in shown],
        {"symbol": symbols, "size": 15, "line": {"width": 1.5, "color": theme.INK}},
        legendgroup=plan,
        hovertemplate="%{hovertext}<extra></extra>",
    )
