"""The scaling of plans: TFLOPS per device and scaling efficiency against the number of devices, and what does not
fit."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, pairwise
from math import log10
from typing import Any

from simfrontier.report.batches import work
from simfrontier.report.markup import Figure, items, keyed, paragraph, plot, section, table, text
from simfrontier.report.phrases import TOO_BIG, number, percent, sizes_in_words
from simfrontier.report.probability import SHARED
from simfrontier.report.theme import axis, figure
from simfrontier.report.view import StudyView, rate, step_s
from simfrontier.study import BAND, PlanOutcome

_HEIGHT, _HEIGHT_WITH_BARS = 400, 500
_NOT_ZERO = " Vertical axes do not start at zero."
_DODGE = 0.008  # between two plans' bars, as a part of the axis
_ROOM = 0.5  # of the least gap between two sizes, that the bars of one size take at most
_ZOOM_FROM = 0.4  # an axis starts at zero unless the smallest value is above this share of the largest


def scaling(view: StudyView) -> str:
    """The section with both charts, the table of rates, and the points that are missing with their reason."""
    if not any(outcome.row["fits"] for outcome in view.study.outcomes):
        return section("scaling", "How the plans scale", paragraph("No plan fits at any size."), _missing(view))
    one = (
        f"There is one size, {view.largest:,} {view.devices}: nothing is said of scaling. "
        if len(view.sizes) == 1
        else ""
    )
    return section(
        "scaling",
        "How the plans scale",
        paragraph(f"{one}{work(view)} Click a name in the legend to hide a plan, twice to see it alone.".strip()),
        plot(
            "fig-rate",
            {f"TFLOPS per {view.device}": rates(view), "step time": step_times(view)},
            f"TFLOPS per {view.device}, and step time, against {view.devices}",
        ),
        _bands(view),
        _efficiencies(view),
        _table(view),
        _missing(view),
    )


def _efficiencies(view: StudyView) -> str:
    """The chart of efficiencies, which one size does not have."""
    zoomed = _NOT_ZERO.strip() if _zoomed(view) else ""
    if len(view.sizes) == 1:
        return paragraph(zoomed, "note") if zoomed else ""
    message = (
        f"Efficiency: a plan’s rate per {view.device} over its own at the smallest size at which it fits. {zoomed}"
    )
    figures = {"efficiency": efficiencies(view)}
    return plot("fig-efficiency", figures, f"Scaling efficiency against {view.devices}") + paragraph(
        message.strip(), "note"
    )


def _bands(view: StudyView) -> str:
    """What lines and bars are, if there are bars; the slowest device sets the pace where devices differ."""
    if all(outcome.samples_s is None for outcome in view.study.outcomes):
        return ""
    differ = bool(view.scenario.machine.device.speed_sd)
    pace = "In the samples the slowest device sets the pace, so bars may lie beside their line. " if differ else ""
    return paragraph(
        f"Lines: {'every device typical, ' if differ else ''}no errors. Bars, side by side for the plans: nine of ten "
        f"samples, with a dot at their median. {pace}{SHARED}",
        "note",
    )


def rates(view: StudyView) -> Figure:
    """TFLOPS per device against devices, one line per plan, with the bars of its samples."""

    def of(outcome: PlanOutcome, seconds: float) -> float:
        return rate(outcome) * step_s(outcome) / seconds

    lines = _lines(view, "tflops_per_device", f"TFLOPS per {view.device}", 1.0, "%{y:.4~g} TFLOPS")
    return _banded(view, lines, of, "TFLOPS")


def step_times(view: StudyView) -> Figure:
    """Seconds of a step against devices, one line per plan, with the bars of its samples."""
    lines = _lines(view, "step_time_s", "step time (s)", 1.0, "%{y:.4~g} s")
    return _banded(view, lines, lambda _, seconds: seconds, "s")


def efficiencies(view: StudyView) -> Figure:
    """Scaling efficiency in per cent against devices, one line per plan."""
    return _lines(view, "scaling_efficiency", "scaling efficiency (%)", 100.0, "%{y:.1f} %")


def _lines(view: StudyView, column: str, title: str, scale: float, hover: str) -> Figure:
    traces = []
    for plan in view.plans:
        points = [(o.devices, scale * float(o.row[column])) for o in view.study.of(plan) if o.row["fits"]]
        if not points:
            continue
        points.sort()
        mark = view.marks[plan]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": plan,
                "legendgroup": plan,
                "x": [x for x, _ in points],
                "y": [y for _, y in points],
                "line": {"color": mark.colour, "width": 2.5},
                "marker": {"symbol": mark.symbol, "size": 9, "color": mark.colour},
                "hovertemplate": f"<b>{text(plan)}</b><br>%{{x:,}} {view.devices}<br>{hover}<extra></extra>",
            }
        )
    ticks: dict[str, Any] = {
        "type": "log",
        "tickvals": list(view.sizes),
        "ticktext": [f"{size:,}" for size in view.sizes],
    }
    if len(view.sizes) == 1:  # an axis that fits itself to one size would pull the plans' bars far apart
        ticks["range"] = [log10(view.largest) - 0.5, log10(view.largest) + 0.5]
    x = axis(f"{view.devices} (log scale)", **ticks)
    return figure(traces, x, axis(title, rangemode="normal" if _zoomed(view) else "tozero"), _HEIGHT)


def _banded(view: StudyView, lines: Figure, of: Callable[[PlanOutcome, float], float], unit: str) -> Figure:
    """The lines with the samples' medians and bands beside them, which go away with them; `of` is the value of an
    outcome whose step takes so long."""
    bars = []
    known = {plan: [o for o in view.study.of(plan) if o.samples_s is not None] for plan in view.plans}
    shown = [plan for plan, outcomes in known.items() if outcomes]
    for plan, shift in zip(shown, _dodged(view.sizes, len(shown)), strict=True):
        outcomes = sorted(known[plan], key=lambda outcome: outcome.devices)
        ends = [sorted(of(o, float(o.row[column])) for column in BAND) for o in outcomes]
        bars.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": plan,
                "legendgroup": plan,
                "showlegend": False,
                "x": [shift * o.devices for o in outcomes],
                "y": [middle for _, middle, _ in ends],
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": [high - middle for _, middle, high in ends],
                    "arrayminus": [middle - low for low, middle, _ in ends],
                    "thickness": 2,
                    "width": 2,
                    "color": view.marks[plan].colour,
                },
                "marker": {"symbol": "circle", "size": 5, "color": view.marks[plan].colour},
                "hovertext": [
                    f"{o.devices:,} {view.devices}, samples: {number(middle)} ({number(low)} to {number(high)}) {unit}"
                    for o, (low, middle, high) in zip(outcomes, ends, strict=True)
                ],
                "hovertemplate": f"<b>{text(plan)}</b><br>%{{hovertext}}<extra></extra>",
            }
        )
    height = _HEIGHT_WITH_BARS if bars else _HEIGHT
    return {"data": [*lines["data"], *bars], "layout": {**lines["layout"], "height": height}}


def _dodged(sizes: tuple[int, ...], num_plans: int) -> list[float]:
    """By which factor each plan's bars are moved on the axis of sizes, which is logarithmic."""
    gaps = [log10(after / before) for before, after in pairwise(sizes)] or [1.0]
    apart = min(_DODGE * sum(gaps), _ROOM * min(gaps) / max(num_plans, 1))
    return [10 ** (apart * (place - (num_plans - 1) / 2)) for place in range(num_plans)]


def _zoomed(view: StudyView) -> bool:
    """Whether the axes start near the smallest value: only where that is not far below the largest, in both charts."""
    rows = [outcome.row for outcome in view.study.outcomes if outcome.row["fits"]]
    columns = [[float(row[name]) for row in rows] for name in ("tflops_per_device", "scaling_efficiency")]
    return all(min(values) > _ZOOM_FROM * max(values) for values in columns)


def _table(view: StudyView) -> str:
    rows = []
    for plan in view.plans:
        cells = []
        for size in view.sizes:
            for outcome in view.at(size):
                if outcome.plan == plan:
                    row = outcome.row
                    cells.append(
                        f"{number(float(row['tflops_per_device']))}<small>{percent(float(row['scaling_efficiency']))}</small>"
                        if row["fits"]
                        else f'<span class="no" title="{text(row["note"])}">{TOO_BIG}</span>'
                    )
        rows.append([keyed(view.marks[plan].colour, plan), *cells])
    head = [f"TFLOPS per {view.device}<small>efficiency</small>", *(f"{size:,}" for size in view.sizes)]
    return table(head, rows, "rates")


def _missing(view: StudyView) -> str:
    """Every point that does not fit, by plan."""
    made = []
    for plan, group in groupby(view.misfits, key=lambda outcome: outcome.plan):
        outcomes = sorted(group, key=lambda outcome: outcome.devices)
        lines = items(f"{outcome.devices:,}: {text(outcome.row['note'])}" for outcome in outcomes)
        where = sizes_in_words([outcome.devices for outcome in outcomes])
        made.append(
            f"<details><summary><b>{text(plan)}</b> does not fit on {where} {view.devices}</summary>{lines}</details>"
        )
    return "<h3>Points that are missing because they do not fit</h3>" + "".join(made) if made else ""
