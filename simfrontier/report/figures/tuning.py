"""The charts of a search: memory against time, how sure the order is, estimates against simulations, and parts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape as text
from typing import Any

from simfrontier.report.figures.breakdown import PARTS
from simfrontier.report.findings.tuning import KINDS, TuningFindings, kind_of
from simfrontier.report.markup import Figure
from simfrontier.report.phrases import as_percent, between, percent, quantity
from simfrontier.report.theme import INK, LINE, axis, figure, line, marks, points, rows, time_scale
from simfrontier.tuning import TunedPlan

COLOURS = {kind: mark.colour for kind, mark in marks(KINDS).items()}
FAR = 4.0  # of the fullest plan: a capacity above that would press all marks down
MOST = 2.5  # of the best step: what is slower is beyond the first view
BAND = "nine samples of ten"
_CAPACITY = "#B22222"


def scatter(found: TuningFindings) -> Figure:
    """Every plan that fits by its step and its memory, the Pareto front, the scenario's own plans and the capacity."""
    outcome, best_s = found.outcome, found.outcome.best.step_s
    own = [(each, each.simulated) for each in outcome.own if each.simulated is not None]
    front, slowest = outcome.front(), max(plan.step_s for plan in outcome.plans)
    fullest = max([0.0, *(plan.peak_bytes for plan in outcome.plans), *(one.peak_bytes for _, one in own)])
    per_s, time = time_scale(best_s)
    size, memory = (1e9, "GB") if fullest >= 1e9 else (1e6, "MB") if fullest >= 1e6 else (1e3, "kB")

    def xs(seconds: Sequence[float]) -> list[float]:
        return [_short(per_s * value) for value in seconds]

    def ys(num_bytes: Sequence[float]) -> list[float]:
        return [_short(value / size) for value in num_bytes]

    traces = []
    for kind, colour in COLOURS.items():
        for all_plans, is_simulated in ((outcome.estimated, False), (outcome.simulated, True)):
            if plans := [plan for plan in all_plans if kind_of(plan.candidate) == kind]:
                look = (10, 1.0) if is_simulated else (6, 0.55)
                traces.append(
                    points(
                        f"{kind}, {'simulated' if is_simulated else 'estimated'}",
                        xs([plan.step_s for plan in plans]),
                        ys([plan.peak_bytes for plan in plans]),
                        colour,
                        "circle" if is_simulated else "circle-open",
                        list(map(hover, plans)),
                        {"size": look[0], "opacity": look[1], "line": {"width": 1, "color": colour}},
                        legendgroup=kind,
                        hovertemplate="%{hovertext}<extra></extra>",
                    )
                )
    if known := _bands(outcome.simulated):
        middles, peaks = xs([band[1] for _, band in known]), ys([plan.peak_bytes for plan, _ in known])
        bars = {"color": "rgba(127,127,127,0.75)", "thickness": 1.2, "width": 3}
        marker = {"symbol": "line-ns-open", "size": 7, "color": "rgba(127,127,127,0.9)"}
        traces.append(
            {
                **line(BAND, middles, peaks, mode="markers", marker=marker),
                "error_x": _error_bars([band for _, band in known], per_s) | bars,
            }
        )
    traces.append(
        line(
            "Pareto front",
            xs([*(plan.step_s for plan in front), slowest]),
            ys([*(plan.peak_bytes for plan in front), front[-1].peak_bytes]),
            line={"shape": "hv", "width": 1.5, "color": LINE},
        )
    )
    if own:
        words = [
            f"<b>{text(each.name)}</b> (the scenario's own)<br>{quantity(one.step_s, 's')}, "
            f"{quantity(one.peak_bytes, 'bytes')}{'' if each.fits else ', does not fit'}"
            for each, one in own
        ]
        traces.append(
            points(
                "the scenario's own",
                xs([one.step_s for _, one in own]),
                ys([one.peak_bytes for _, one in own]),
                INK,
                "star",
                words,
                {"size": 12, "line": {"width": 1, "color": INK}},
                mode="markers+text",
                text=[text(each.name) for each, _ in own],
                textposition="top center",
                textfont={"size": 11},
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    first = min([front[0].step_s, *(one.step_s for _, one in own)])
    last = max([min(slowest, MOST * front[0].step_s), *(one.step_s for _, one in own)])  # of the first view
    margin = 0.05 * ((last - first) or last)
    x = axis(f"time of one step ({time})", range=xs([first - margin, last + margin]))
    y = axis(f"memory on the fullest device ({memory})", rangemode="tozero")
    is_far = found.capacity_bytes > FAR * fullest
    return figure(
        traces,
        x,
        y,
        620,
        hovermode="closest",
        **_capacity(found.capacity_bytes, _short(found.capacity_bytes / size), is_far),
    )


def _capacity(capacity_bytes: float, at: float, is_far: bool) -> dict[str, Any]:
    """A line at the memory of a device; where all plans take far less, the words alone."""
    words = f"memory of a device: {quantity(capacity_bytes, 'bytes')}"
    label = {
        "xref": "paper",
        "x": 1,
        "xanchor": "right",
        **({"yref": "paper", "y": 1, "yanchor": "top"} if is_far else {"y": at, "yanchor": "bottom"}),
        "text": f"{words}, far above" if is_far else words,
        "showarrow": False,
        "font": {"color": _CAPACITY, "size": 12},
    }
    dashes = {"dash": "dash", "width": 2, "color": _CAPACITY}
    drawn = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at, "line": dashes}
    return {"shapes": [] if is_far else [drawn], "annotations": [label]}


def order(found: TuningFindings) -> Figure:
    """The simulated plans, the fastest on top: the step without errors, and what nine samples of ten lie within."""
    plans, chances = found.outcome.simulated, found.outcome.chances
    scale, unit = time_scale(found.outcome.best.step_s)
    labels = _labels(plans)
    known = _bands(plans)
    traces = []
    if known:
        traces.append(
            points(
                "median, and nine samples of ten",
                [_short(scale * band[1]) for _, band in known],
                [label for plan, label in zip(plans, labels, strict=True) if plan.simulated and plan.simulated.band_s],
                INK,
                "line-ns-open",
                [
                    f"{quantity(band[1], 's')} in the median, {between(band[0], band[2], 's')} in nine samples of ten"
                    for _, band in known
                ],
                {"size": 14, "line": {"width": 2, "color": INK}},
                error_x=_error_bars([band for _, band in known], scale) | {"color": LINE, "thickness": 5, "width": 0},
                hovertemplate="%{y}<br>%{hovertext}<extra></extra>",
            )
        )
    colours = [COLOURS[kind_of(plan.candidate)] for plan in plans]
    steps = [_short(scale * plan.step_s) for plan in plans]
    template = "%{hovertext}<extra></extra>"
    named = list(map(hover, plans))
    traces.append(
        points("without errors", steps, labels, colours, "circle", named, {"size": 11}, hovertemplate=template)
    )
    at_right = {"xref": "paper", "x": 1.0, "xanchor": "right", "showarrow": False, "font": {"size": 12}}
    notes = [
        {**at_right, "y": label, "text": as_percent(chance, found.num_samples)}
        for label, chance in zip(labels, chances, strict=True)
        if chance is not None
    ]
    if notes:
        notes.append({**at_right, "yref": "paper", "y": 1.0, "yanchor": "bottom", "text": "fastest in"})
    ends = [scale * end for _, band in known for end in (band[0], band[2])] + [scale * plan.step_s for plan in plans]
    width = (max(ends) - min(ends)) or 0.1 * max(ends)
    x = axis(f"time of one step ({unit})", range=[min(ends) - 0.04 * width, max(ends) + 0.16 * width])
    return figure(traces, x, _rows(labels), 120 + 40 * len(labels), annotations=notes, hovermode="closest")


def against_estimates(found: TuningFindings) -> Figure:
    """Simulated against estimated steps, with the diagonal."""
    all_plans = found.outcome.simulated
    scale, unit = time_scale(found.outcome.best.step_s)
    values = [scale * value for plan in all_plans for value in (plan.step_s, plan.estimate.step_s)]
    margin = 0.06 * ((max(values) - min(values)) or max(values))
    ends = [_short(min(values) - margin), _short(max(values) + margin)]
    traces = [line("equal", ends, ends, "dot")]
    for kind, colour in COLOURS.items():
        if plans := [plan for plan in all_plans if kind_of(plan.candidate) == kind]:
            estimated = [_short(scale * plan.estimate.step_s) for plan in plans]
            simulated = [_short(scale * plan.step_s) for plan in plans]
            traces.append(points(kind, estimated, simulated, colour, "circle", list(map(hover, plans)), {"size": 10}))
    x = axis(f"estimated, no sharing of links ({unit})", range=ends)
    return figure(traces, x, axis(f"simulated ({unit})", range=ends), 460, hovermode="closest")


def parts(found: TuningFindings) -> Figure:
    """Stacked bars of what each simulated plan spends its step on, the fastest on top."""
    scale, unit = time_scale(found.outcome.best.step_s)
    labels = _labels(found.outcome.simulated)
    simulated = [plan.simulated for plan in found.outcome.simulated if plan.simulated]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": part.name,
            "y": labels,
            "x": [_short(scale * one.parts[key]) for one in simulated],
            "customdata": [
                f"{quantity(one.parts[key], 's')}, {percent(one.parts[key] / one.step_s)}" for one in simulated
            ],
            "marker": {"color": part.colour},
            "hovertemplate": f"%{{y}}<br>{part.name}: %{{customdata}}<extra></extra>",
        }
        for key, part in PARTS.items()
        if any(one.parts[key] for one in simulated)
    ]
    x = axis(f"time of one step ({unit})")
    return figure(traces, x, _rows(labels), 130 + 38 * len(labels), barmode="stack", bargap=0.3)


def hover(plan: TunedPlan) -> str:
    """The hover text of a plan."""
    words = f"<b>{text(plan.candidate.name)}</b><br>{quantity(plan.step_s, 's')}, {quantity(plan.peak_bytes, 'bytes')}"
    if plan.simulated is None:
        return f"{words}, estimated; floor {quantity(plan.estimate.floor_s, 's')}"
    band = plan.simulated.band_s
    sampled = f"; {BAND}: {between(band[0], band[2], 's')}" if band else ""
    return f"{words}, simulated{sampled}<br>estimated {quantity(plan.estimate.step_s, 's')}"


def _bands(plans: Sequence[TunedPlan]) -> list[tuple[TunedPlan, tuple[float, float, float]]]:
    """Plans with what nine samples of ten of their steps lie within: low, median and high, seconds."""
    return [(plan, plan.simulated.band_s) for plan in plans if plan.simulated and plan.simulated.band_s]


def _error_bars(bands: Sequence[tuple[float, float, float]], scale: float) -> dict[str, Any]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [_short(scale * (high - middle)) for _, middle, high in bands],
        "arrayminus": [_short(scale * (middle - low)) for low, middle, _ in bands],
    }


def _labels(plans: Sequence[TunedPlan]) -> list[str]:
    """Plans as labels of rows, on two lines."""
    named = enumerate((plan.candidate for plan in plans), start=1)
    return [f"{place}. {text(one.layout)}<br>{text(one.of_the_batch)}" for place, one in named]


def _rows(labels: Sequence[str]) -> dict[str, Any]:
    return axis("", **rows(labels), tickfont={"size": 11})


def _short(value: float) -> float:
    """Six digits are more than a chart shows."""
    return float(f"{value:.6g}")
