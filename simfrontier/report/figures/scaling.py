"""Lines of rate, step time and scaling efficiency against the number of devices, with the bars of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from math import log10
from typing import Any

from simfrontier.report.findings.scaling import ScaledPlan
from simfrontier.report.phrases import number
from simfrontier.report.theme import Figure, PlanMark, axis, error_bars, figure, points, scatter

Scaling = Mapping[str, Sequence[ScaledPlan]]
_HEIGHT, _HEIGHT_WITH_BARS = 400, 500
_DODGE = 0.008  # between two plans' bars, as a part of the axis
_ROOM = 0.5  # of the least gap between two sizes, that the bars of one size take at most
_ZOOM_FROM = 0.4  # an axis starts at zero unless the smallest value is above this share of the largest


def rates(found: Scaling, marks: Mapping[str, PlanMark], device: str) -> Figure:
    """TFLOPS per device against devices, one line per plan, with the bars of its samples."""
    lines = _lines(found, marks, device, "tflops_per_device", f"TFLOPS per {device}", "%{y:.4~g} TFLOPS")
    return _banded(found, lines, marks, device, "sampled_tflops", "TFLOPS")


def step_times(found: Scaling, marks: Mapping[str, PlanMark], device: str) -> Figure:
    """Seconds of a step against devices, one line per plan, with the bars of its samples."""
    lines = _lines(found, marks, device, "step_s", "step time (s)", "%{y:.4~g} s")
    return _banded(found, lines, marks, device, "sampled_step_s", "s")


def efficiencies(found: Scaling, marks: Mapping[str, PlanMark], device: str) -> Figure:
    """Scaling efficiency in per cent against devices, one line per plan."""
    return _lines(found, marks, device, "efficiency", "scaling efficiency (%)", "%{y:.1f} %", 100.0)


def zoomed(found: Scaling) -> bool:
    """Whether the axes start near the smallest value: only where that is not far below the largest, in both charts."""
    for column in ("tflops_per_device", "efficiency"):
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
    if len(sizes) == 1:  # an axis that fits itself to one size would pull the plans' bars far apart
        ticks["range"] = [log10(sizes[0]) - 0.5, log10(sizes[0]) + 0.5]
    x = axis(f"{device}s (log scale)", **ticks)
    return figure(traces, x, axis(title, rangemode="normal" if zoomed(found) else "tozero"), _HEIGHT)


def _banded(
    found: Scaling, lines: Figure, marks: Mapping[str, PlanMark], device: str, column: str, unit: str
) -> Figure:
    """The lines with the samples' medians and bands beside them, which go away with them."""
    known = {plan: [one for one in outcomes if getattr(one, column)] for plan, outcomes in found.items()}
    shown = {plan: outcomes for plan, outcomes in known.items() if outcomes}
    bars = []
    for (plan, outcomes), shift in zip(shown.items(), _dodged(_sizes(found), len(shown)), strict=True):
        bands = [getattr(one, column) for one in outcomes]
        ends = [(band.low, band.median, band.high) for band in bands]
        words = [
            f"{one.devices:,} {device}s, samples: {number(middle)} ({number(low)} to {number(high)}) {unit}"
            for one, (low, middle, high) in zip(outcomes, ends, strict=True)
        ]
        bars.append(
            points(
                plan,
                [shift * one.devices for one in outcomes],
                [band.median for band in bands],
                marks[plan].colour,
                "circle",
                words,
                {"size": 5},
                legendgroup=plan,
                showlegend=False,
                error_y=error_bars(ends, thickness=2, width=2, color=marks[plan].colour),
                hovertemplate=f"<b>{escape(plan)}</b><br>%{{hovertext}}<extra></extra>",
            )
        )
    height = _HEIGHT_WITH_BARS if bars else _HEIGHT
    return {"data": [*lines["data"], *bars], "layout": {**lines["layout"], "height": height}}


def _sizes(found: Scaling) -> list[int]:
    return sorted({one.devices for outcomes in found.values() for one in outcomes})


def _dodged(sizes: Sequence[int], num_plans: int) -> list[float]:
    """By which factor each plan's bars are moved on the axis of sizes, which is logarithmic."""
    gaps = [log10(after / before) for before, after in pairwise(sizes)] or [1.0]
    apart = min(_DODGE * sum(gaps), _ROOM * min(gaps) / max(num_plans, 1))
    return [10 ** (apart * (place - (num_plans - 1) / 2)) for place in range(num_plans)]
