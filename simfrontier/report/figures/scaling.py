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
_MARGIN = 0.06  # of the axis beyond what is drawn, and between points that are shown at its edge
_BEYOND = ", published, beyond the axis"
_ZOOM_FROM = 0.4  # an axis starts at zero unless the smallest value is above this share of the largest


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPoint:
    """A published rate or step of a plan at a size, in the unit of the chart, and what it is in words."""

    plan: str
    devices: int
    value: float
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What a chart shows: simulated sizes and values, and the published points that are near them. `left` and `right`
    are numbers of devices."""

    left: float
    right: float
    low: float
    high: float

    def holds(self, point: PublishedPoint) -> bool:
        return not self.side(point)

    def side(self, point: PublishedPoint) -> str:
        """The arrow to a point that lies outside; empty where it does not."""
        if not self.low <= point.value <= self.high:
            return "triangle-up" if point.value > self.high else "triangle-down"
        if not self.left <= point.devices <= self.right:
            return "triangle-right" if point.devices > self.right else "triangle-left"
        return ""


def rates(
    found: Scaling, marks: Mapping[str, PlanMark], device: str, unit: str, published: Sequence[PublishedPoint] = ()
) -> Figure:
    """Rates (in `unit`) against devices, one line per plan through the medians of its samples within their 90 %
    interval, with a faint mark at the nominal value; `published` figures are stars, or arrows with their value at the
    edge where they lie far outside of what is simulated."""
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
    window = _window(found, lines, sampled, nominal, published)
    at_edge = [point for point in published if not window.holds(point)]
    for plan in found:
        points_of = [point for point in published if point.plan == plan and window.holds(point)]
        if points_of:
            before.append(_published(plan, points_of, marks[plan].colour))
        outside = [point for point in at_edge if point.plan == plan]
        if outside:
            before.append(_beyond(plan, outside, at_edge, window, marks[plan].colour, unit))
    layout = lines["layout"]
    if at_edge:
        x = {**layout["xaxis"], "range": [log10(window.left), log10(window.right)]}
        layout = {**layout, "xaxis": x, "yaxis": {**layout["yaxis"], "range": [window.low, window.high]}}
    return {"data": [*behind, *lines["data"], *before], "layout": layout}


def _window(found: Scaling, lines: Figure, sampled: str, nominal: str, published: Sequence[PublishedPoint]) -> Window:
    """The window of a chart whose lines are these."""
    values = [value for line in lines["data"] for value in line["y"]]
    for one in (one for outcomes in found.values() for one in outcomes if not one.misfit):
        band = getattr(one, sampled)
        values += [getattr(one, nominal), *([band.low, band.high] if band else [])]
    is_zoomed = lines["layout"]["yaxis"]["rangemode"] == "normal"
    low, high = (min(values) if is_zoomed else 0.0), max(values)
    length = (high - low) or high
    near = [point.value for point in published if low - _REACH * length <= point.value <= high + _REACH * length]
    low, high = min([low, *near]), max([high, *near])
    margin = _MARGIN * ((high - low) or high)
    sizes = _sizes(found)
    apart = (sizes[-1] / sizes[0]) ** _MARGIN if len(sizes) > 1 else 10**0.5
    return Window(
        left=sizes[0] / apart, right=sizes[-1] * apart, low=low - margin if is_zoomed else 0.0, high=high + margin
    )


def has_beyond(shown: Figure) -> bool:
    """Whether a chart has published points at its edge, which lie outside of it."""
    return any(trace["name"].endswith(_BEYOND) for trace in shown["data"])


def _beyond(
    plan: str,
    shown: Sequence[PublishedPoint],
    others: Sequence[PublishedPoint],
    window: Window,
    colour: str,
    unit: str,
) -> PlotTrace:
    """Published points outside of the window: at its edge, with their value in words, none over one of the `others`."""
    sides = [window.side(point) for point in shown]
    step, middle = _MARGIN * (window.high - window.low), (window.low + window.high) / 2
    x, y, words = [], [], []
    for point, side in zip(shown, sides, strict=True):
        farther = sum(
            window.side(other) == side and abs(other.value - middle) > abs(point.value - middle) for other in others
        )
        inward = {"triangle-up": -1, "triangle-down": 1}.get(side, 0) * step * (farther + 0.5)
        x.append(min(max(point.devices, window.left), window.right))
        y.append(min(max(point.value, window.low), window.high) + inward)
        size = "" if x[-1] == point.devices else f" on {point.devices:,}"
        words.append(f" {escape(plan)}, published: {number(point.value)}{size} ")
    told = [f"{point.words}<br>{number(point.value)} {unit}, beyond the axis" for point in shown]
    look = {"size": 12, "symbol": sides, "line": {"width": 1.5, "color": INK}}
    return points(
        f"{plan}{_BEYOND}",
        x,
        y,
        colour,
        "triangle-up",
        told,
        look,
        mode="markers+text",
        text=words,
        textposition=["middle left" if at > (window.left * window.right) ** 0.5 else "middle right" for at in x],
        cliponaxis=False,
        legendgroup=plan,
        showlegend=False,
        hovertemplate="%{hovertext}<extra></extra>",
    )


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
        f"{plan}, published",
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
