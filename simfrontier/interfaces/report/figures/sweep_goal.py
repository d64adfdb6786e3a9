"""Charts of a sweep's goal: shares of unknowns, the best point so far of a search, values of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from simfrontier.answers.sweep import GoalAnswer, Indices
from simfrontier.interfaces.report.findings.sweep import SWEEP_DRAWN
from simfrontier.interfaces.report.findings.sweep_goal import SweptGoal
from simfrontier.interfaces.report.phrases import percent, percent_between
from simfrontier.interfaces.report.theme import (
    COMPUTE,
    LINE,
    Figure,
    PlotTrace,
    axis,
    error_bars,
    faint,
    figure,
    points,
    rows,
    scatter,
    told_bars,
    unit_ticks,
)

TOTAL: Final = "#E0A458"
LOG_FROM: Final = 4.0  # an axis is logarithmic where the largest value is so many times the smallest


def shares_figure(found: Indices, names: Mapping[str, str]) -> Figure:
    """Two bars for each unknown, in per cent of the variance, with the 90 % intervals of both."""
    labels = [names[each.key] for each in found.unknowns]
    firsts = [(*each.first_interval, each.first) for each in found.unknowns]
    totals = [(*each.total_interval, each.total) for each in found.unknowns]
    traces: list[PlotTrace] = []
    for words, shares, colour in (("by itself", firsts, COMPUTE), ("with all others known", totals, TOTAL)):
        hover = [
            f"<b>{escape(name)}</b><br>{escape(each.key)}<br>{words}: {percent(share)} ({percent_between(low, high)})"
            for name, each, (low, high, share) in zip(labels, found.unknowns, shares, strict=True)
        ]
        ends = error_bars(
            [(100.0 * low, 100.0 * share, 100.0 * high) for low, high, share in shares],
            color=LINE, thickness=1.6, width=4,
        )  # fmt: skip
        values = [100.0 * share for *_, share in shares]
        traces.append(told_bars(words, labels, values, colour, hover, error_x=ends))
    x = axis("share of the variance (%), with 90 % intervals", zeroline=True, zerolinecolor=LINE)
    return figure(traces, x, axis("", **rows(labels)), 120 + 44 * len(labels), barmode="group", bargap=0.3)


def search_figure(goal: SweptGoal, answer: GoalAnswer) -> Figure:
    """Values of points in the order in which they were asked for, and the best so far as steps."""
    known = [(point, value) for point, value in enumerate(answer.values) if value is not None]
    every = -(-len(known) // SWEEP_DRAWN) if known else 1
    shown = [(point, value) for point, value in known if point % every == 0 or point == answer.best_point]
    hover = [f"<b>point {point:,}</b><br>{escape(goal.in_words(value))}" for point, value in shown]
    marks = points(
        "a point", [point for point, _ in shown], [value for _, value in shown], LINE, "circle", hover,
        {"size": 7, "opacity": 0.75},
    )  # fmt: skip
    steps = [(point, value) for point, value in enumerate(answer.so_far) if value is not None]
    traces = [marks, _steps(steps)]
    if answer.best is not None and answer.best_point is not None:
        traces.append(
            points(
                "the best",
                [answer.best_point],
                [answer.best],
                "#D55E00",
                "star",
                [f"<b>point {answer.best_point:,}</b>, the best<br>{escape(goal.in_words(answer.best))}"],
                {"size": 15},
            )
        )
    values = [value for _, value in known]
    is_wide = 0.0 < LOG_FROM * min(values, default=0.0) < max(values, default=0.0)
    y = axis(goal.title, **({"type": "log"} if is_wide else {}), **unit_ticks(goal.unit))
    return figure(traces, axis("point, in the order of the search"), y, 400, hovermode="closest")


def _steps(steps: Sequence[tuple[int, float]]) -> PlotTrace:
    """The best so far: a point for each that was better, and the last."""
    turns = [each for at, each in enumerate(steps) if at in (0, len(steps) - 1) or each[1] != steps[at - 1][1]]
    look = {"color": COMPUTE, "width": 2.5, "shape": "hv"}
    x, y = [point for point, _ in turns], [value for _, value in turns]
    return scatter("the best so far", x, y, "lines", line=look, hoverinfo="skip")


def samples_figure(goal: SweptGoal, answer: GoalAnswer) -> Figure:
    """Histogram of the samples, with their mean and the standard deviation about it."""
    drawn: PlotTrace = {
        "type": "histogram",
        "name": "samples",
        "x": [value for value in answer.values if value is not None],
        "marker": {"color": COMPUTE},
        "hovertemplate": "%{x}: %{y:,}<extra></extra>",
    }
    assert answer.mean is not None and answer.sd is not None, "of samples with values"
    mean, sd = answer.mean, answer.sd
    whole = {"yref": "paper", "y0": 0, "y1": 1}
    middle = {"type": "line", "x0": mean, "x1": mean, "line": {"color": "#D55E00", "width": 2.5, "dash": "dash"}}
    band = {"type": "rect", "x0": mean - sd, "x1": mean + sd, "fillcolor": faint(LINE, 0.18), "line": {"width": 0}}
    x = axis(f"{goal.title}; dashed: mean; shaded: ± standard deviation", **unit_ticks(goal.unit))
    shapes = [middle | whole, band | whole | {"layer": "below"}]
    return figure([drawn], x, axis("samples"), 380, bargap=0.04, shapes=shapes)
