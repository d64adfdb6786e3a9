"""Lines of rate, step time and scaling efficiency against the number of devices, within the bands of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import log10
from typing import Any

from simfrontier.records import dataclass
from simfrontier.report.findings.scaling import ScaledPlan
from simfrontier.report.phrases import number
from simfrontier.report.theme import INK, Figure, PlanMark, PlotTrace, axis, error_bars, faint, figure, points, scatter

Scaling = Mapping[str, Sequence[ScaledPlan]]
_HEIGHT = 460
_BAND_OPACITY = 0.13
_REACH = 0.5  # how far beyond the simulated values the axis follows published points, in lengths of their range
_ZOOM_FROM = 0.4  # an axis starts at zero unless the smallest value is above this share of the largest


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPoint:
    """A published rate or step of a plan at a size, in the unit of the chart, and what it is in words."""

    plan: str
    devices: int
    value: float
    words: str


def rates(
    found: Scaling, marks: Mapping[str, PlanMark], device: str, unit: str, published: Sequence[PublishedPoint] = ()
) -> Figure:
    """Rates (in `unit`) against devices, one line per plan through the medians of its samples within their 90 %
    interval, with a faint mark at the nominal value; `published` figures are stars,
    with their values in the legend."""
    short = unit.partition(" ")[0]
    lines = _lines(found, marks, device, "rate", unit, f"%{{y:.4~g}} {short}")
    return _banded(found, lines, marks, device, "sampled_rate", "nominal_rate", short, published)


def step_times(found: Scaling, marks: Mapping[str, PlanMark], device: str) -> Figure:
    """Seconds of a step against devices, as `rates`."""
    lines = _lines(found, marks, device, "step_s", "step time (s)", "%{y:.4~g} s")
    return _banded(found, lines, marks, device, "sampled_step_s", "nominal_step_s", "s")


def efficiencies(found: Scaling, marks: Mapping[str, PlanMark], device: str) -> Figure:
    """Scaling efficiency in per cent against devices, one line per plan."""
    return _lines(found, marks, device, "efficiency", "scaling efficiency (%)", "%{y:.1f} %", 100.0)


def zoomed(found: Scaling) -> bool:
    """Whether the axes start near the smallest value: only where that is not far below the largest, in both charts."""
    for column in ("rate", "efficiency"):
        values = [getattr(one, column) for plan in found.values() for one in plan if not one.misfit]
        if min(values) <= _ZOOM_FROM * max(values):
            return False
    return True


def _lines(
    found: Scaling,
    marks: Mapping[str, PlanMark],
    device: str,
    column: str,
    title: str,
    hover: str,
    scale: float = 1.0,
) -> Figure:
    traces = []
    for plan, outcomes in found.items():
        fitting = [one for one in outcomes if not one.misfit]
        if not fitting:
            continue
        mark = marks[plan]
        traces.append(
            scatter(
                plan,
                [one.devices for one in fitting],
                [scale * getattr(one, column) for one in fitting],
                "lines+markers",
                legendgroup=plan,
                line={"color": mark.colour, "width": 2.5},
                marker={"symbol": mark.symbol, "size": 9, "color": mark.colour},
                hovertemplate=f"<b>{escape(plan)}</b><br>%{{x:,}} {device}s<br>{hover}<extra></extra>",
            )
        )
    sizes = _sizes(found)
    ticks: dict[str, Any] = {"type": "log", "tickvals": sizes, "ticktext": [f"{size:,}" for size in sizes]}
    if len(sizes) == 1:  # an axis that fits itself to one size would pull its marks far apart
        ticks["range"] = [log10(sizes[0]) - 0.5, log10(sizes[0]) + 0.5]
    x = axis(f"{device}s (log scale)", **ticks)
    return figure(traces, x, axis(title, rangemode="normal" if zoomed(found) else "tozero"), _HEIGHT)


def _banded(
    found: Scaling,
    lines: Figure,
    marks: Mapping[str, PlanMark],
    device: str,
    sampled: str,
    nominal: str,
    unit: str,
    published: Sequence[PublishedPoint] = (),
) -> Figure:
    """The lines with what belongs to each, which goes away with it: the band of its samples, a faint mark at the
    nominal value, and what was published of it."""
    behind, before = [], []
    for plan, outcomes in found.items():
        known = [one for one in outcomes if getattr(one, sampled)]
        if known:
            behind.append(_band(plan, known, marks[plan].colour, sampled, len(_sizes(found)) == 1))
            behind.append(_nominal(plan, known, marks[plan], device, sampled, nominal, unit))
    for plan in found:
        points_of = [point for point in published if point.plan == plan]
        if points_of:
            before.append(_published(plan, points_of, marks[plan].colour))
    layout = lines["layout"]
    if before:  # stars far outside would press all else together; their values stand in the legend
        simulated = [value for trace in (*behind, *lines["data"]) for value in trace["y"]]
        reach = _REACH * (max(simulated) - min(simulated))
        clip = {"clipmin": min(simulated) - reach, "clipmax": max(simulated) + reach}
        layout = {**layout, "yaxis": {**layout["yaxis"], "autorangeoptions": clip}}
    return {"data": [*behind, *lines["data"], *before], "layout": layout}


def _band(plan: str, outcomes: Sequence[ScaledPlan], colour: str, sampled: str, is_one: bool) -> PlotTrace:
    """The 90 % interval: an area, or of one size a bar."""
    bands = [getattr(one, sampled) for one in outcomes]
    sizes = [one.devices for one in outcomes]
    fixed: dict[str, Any] = {"legendgroup": plan, "showlegend": False, "hoverinfo": "skip"}
    if is_one:
        ends = [(band.low, band.median, band.high) for band in bands]
        bars = error_bars(ends, thickness=2, width=4, color=colour)
        return scatter(plan, sizes, [band.median for band in bands], marker={"color": colour}, error_y=bars, **fixed)
    edge = [*(band.low for band in bands), *(band.high for band in reversed(bands))]
    look = {"fill": "toself", "fillcolor": faint(colour, _BAND_OPACITY), "line": {"width": 0}}
    return scatter(plan, [*sizes, *reversed(sizes)], edge, "lines", **look, **fixed)


def _nominal(
    plan: str,
    outcomes: Sequence[ScaledPlan],
    mark: PlanMark,
    device: str,
    sampled: str,
    nominal: str,
    unit: str,
) -> PlotTrace:
    """The nominal value (no variation between devices, no errors of models): a small open mark, with the samples in
    words."""
    words = []
    for one in outcomes:
        band, value = getattr(one, sampled), number(getattr(one, nominal))
        words.append(
            f"<b>{escape(plan)}</b>, {one.devices:,} {device}s<br>"
            f"nominal: {value} {unit}<br>"
            f"median: {number(band.median)} (90 % interval {number(band.low)} to {number(band.high)}) {unit}"
        )
    return points(
        plan,
        [one.devices for one in outcomes],
        [getattr(one, nominal) for one in outcomes],
        faint(mark.colour, 0.55),
        "line-ew-open",
        words,
        {"size": 9, "line": {"width": 1.5}},
        legendgroup=plan,
        showlegend=False,
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _published(plan: str, shown: Sequence[PublishedPoint], colour: str) -> PlotTrace:
    return points(
        f"{plan}, published: {', '.join(number(point.value) for point in shown)}",
        [point.devices for point in shown],
        [point.value for point in shown],
        colour,
        "star",
        [point.words for point in shown],
        {"size": 15, "line": {"width": 1.5, "color": INK}},
        legendgroup=plan,
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _sizes(found: Scaling) -> list[int]:
    return sorted({one.devices for outcomes in found.values() for one in outcomes})
