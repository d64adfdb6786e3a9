"""The charts of a search: memory against time, how sure the order is, estimates against simulations, and parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from simfrontier.report.figures.breakdown import PARTS
from simfrontier.report.markup import Figure, text
from simfrontier.report.phrases import percent, quantity
from simfrontier.report.theme import axis, figure, marks
from simfrontier.report.tuning_text import KINDS, band_words, chance_text, kind_of, num_samples
from simfrontier.tuning import OwnPlan, SimulatedPlan, TunedPlan, TuningOutcome

COLOURS = {kind: mark.colour for kind, mark in marks(KINDS).items()}
FAR = 4.0  # of the fullest plan: a capacity above that would press all marks down
MOST = 2.5  # of the best step: what is slower is beyond the first view
_INK = "#111111"  # the page's script makes it the colour of the text
_CAPACITY = "#B22222"


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisUnits:
    """The units of the axes of time and memory."""

    per_s: float
    time: str
    per_byte: float
    memory: str

    @classmethod
    def of(cls, seconds: float, num_bytes: float) -> AxisUnits:
        """Those in which such a time and so much memory are read easily."""
        per_s, time = scale_of(seconds)
        size, memory = next(
            ((size, name) for size, name in ((1e9, "GB"), (1e6, "MB")) if num_bytes >= size), (1e3, "kB")
        )
        return cls(per_s=per_s, time=time, per_byte=1.0 / size, memory=memory)

    def x(self, seconds: float) -> float:
        return _short(self.per_s * seconds)

    def y(self, num_bytes: float) -> float:
        return _short(self.per_byte * num_bytes)


def scatter(outcome: TuningOutcome) -> Figure:
    """Every plan that fits by its step and its memory, the Pareto front, the scenario's own plans and the capacity."""
    own = [(each, each.simulated) for each in outcome.own if each.simulated is not None]
    fullest = max(max(plan.peak_bytes for plan in outcome.plans), *(one.peak_bytes for _, one in own), 0.0)
    scales = AxisUnits.of(outcome.best.step_s, fullest)
    traces: list[dict[str, Any]] = []
    for kind in KINDS:
        for plans, is_simulated in ((outcome.estimated, False), (outcome.simulated, True)):
            own_plans = [plan for plan in plans if kind_of(plan.candidate) == kind]
            if own_plans:
                traces.append(_points(own_plans, kind, scales, is_simulated))
    if num_samples(outcome):
        traces.append(_bands(outcome, scales))
    front = outcome.front()
    slowest = max(plan.step_s for plan in outcome.plans)
    traces.append(
        {
            "type": "scatter",
            "mode": "lines",
            "name": "Pareto front",
            "x": [scales.x(seconds) for seconds in (*(plan.step_s for plan in front), slowest)],
            "y": [scales.y(num_bytes) for num_bytes in (*(p.peak_bytes for p in front), front[-1].peak_bytes)],
            "line": {"shape": "hv", "width": 1.5, "color": "#7F7F7F"},
            "hoverinfo": "skip",
        }
    )
    if own:
        traces.append(_own(own, scales))
    first = min([front[0].step_s, *(one.step_s for _, one in own)])
    last = max([min(slowest, MOST * front[0].step_s), *(one.step_s for _, one in own)])  # of the first view
    margin = 0.05 * ((last - first) or last)
    x = axis(f"time of one step ({scales.time})", range=[scales.x(first - margin), scales.x(last + margin)])
    y = axis(f"memory on the fullest device ({scales.memory})", rangemode="tozero")
    capacity = outcome.scenario.machine.device.hbm_bytes
    return figure(traces, x, y, 620, hovermode="closest", **_capacity(capacity, capacity > FAR * fullest, scales))


def _capacity(capacity: float, is_far: bool, scales: AxisUnits) -> dict[str, Any]:
    """A line at the memory of a device; where all plans take far less, the words alone."""
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": scales.y(capacity), "y1": scales.y(capacity)}
    words = f"memory of a device: {quantity(capacity, 'bytes')}"
    label = {
        "xref": "paper",
        "x": 1,
        "xanchor": "right",
        **({"yref": "paper", "y": 1, "yanchor": "top"} if is_far else {"y": scales.y(capacity), "yanchor": "bottom"}),
        "text": f"{words}, far above" if is_far else words,
        "showarrow": False,
        "font": {"color": _CAPACITY, "size": 12},
    }
    shapes = [] if is_far else [{**line, "line": {"dash": "dash", "width": 2, "color": _CAPACITY}}]
    return {"shapes": shapes, "annotations": [label]}


def _points(plans: Sequence[TunedPlan], kind: str, scales: AxisUnits, is_simulated: bool) -> dict[str, Any]:
    colour = COLOURS[kind]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{kind}, {'simulated' if is_simulated else 'estimated'}",
        "legendgroup": kind,
        "x": [scales.x(plan.step_s) for plan in plans],
        "y": [scales.y(plan.peak_bytes) for plan in plans],
        "marker": {
            "symbol": "circle" if is_simulated else "circle-open",
            "size": 10 if is_simulated else 6,
            "opacity": 1.0 if is_simulated else 0.55,
            "color": colour,
            "line": {"width": 1, "color": colour},
        },
        "hovertext": [hover(plan) for plan in plans],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _own(own: Sequence[tuple[OwnPlan, SimulatedPlan]], scales: AxisUnits) -> dict[str, Any]:
    """The scenario's own plans, as stars with their names."""
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": "the scenario's own",
        "x": [scales.x(one.step_s) for _, one in own],
        "y": [scales.y(one.peak_bytes) for _, one in own],
        "text": [text(each.name) for each, _ in own],
        "textposition": "top center",
        "textfont": {"size": 11},
        "marker": {"symbol": "star", "size": 12, "color": _INK, "line": {"width": 1, "color": _INK}},
        "hovertext": [
            f"<b>{text(each.name)}</b> (the scenario's own)<br>{quantity(one.step_s, 's')}, "
            f"{quantity(one.peak_bytes, 'bytes')}{'' if each.fits else ', does not fit'}"
            for each, one in own
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _bands(outcome: TuningOutcome, scales: AxisUnits) -> dict[str, Any]:
    """What nine samples of ten lie within, as bars about the medians."""
    bands = [(plan, plan.simulated.band_s) for plan in outcome.simulated if plan.simulated]
    known = [(plan, band) for plan, band in bands if band is not None]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "nine samples of ten",
        "x": [scales.x(band[1]) for _, band in known],
        "y": [scales.y(plan.peak_bytes) for plan, _ in known],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [scales.x(band[2] - band[1]) for _, band in known],
            "arrayminus": [scales.x(band[1] - band[0]) for _, band in known],
            "color": "rgba(127,127,127,0.75)",
            "thickness": 1.2,
            "width": 3,
        },
        "marker": {"symbol": "line-ns-open", "size": 7, "color": "rgba(127,127,127,0.9)"},
        "hoverinfo": "skip",
    }


def order(outcome: TuningOutcome) -> Figure:
    """The simulated plans, the fastest on top: the step without errors, and what nine samples of ten lie within."""
    scale, unit = scale_of(outcome.best.step_s)
    plans = outcome.simulated
    labels = [row_label(place, plan) for place, plan in enumerate(plans, start=1)]
    colours = [COLOURS[kind_of(plan.candidate)] for plan in plans]
    traces: list[dict[str, Any]] = []
    bands = [plan.simulated.band_s if plan.simulated else None for plan in plans]
    known = [(label, band) for label, band in zip(labels, bands, strict=True) if band is not None]
    if known:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers+text",
                "name": "median, and nine samples of ten",
                "y": [label for label, _ in known],
                "x": [_short(scale * band[1]) for _, band in known],
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": [_short(scale * (band[2] - band[1])) for _, band in known],
                    "arrayminus": [_short(scale * (band[1] - band[0])) for _, band in known],
                    "color": "#7F7F7F",
                    "thickness": 5,
                    "width": 0,
                },
                "marker": {"symbol": "line-ns-open", "size": 14, "color": _INK, "line": {"width": 2, "color": _INK}},
                "hovertext": [
                    f"{quantity(band[1], 's')} in the median, {band_words(band)} in nine samples of ten"
                    for _, band in known
                ],
                "hovertemplate": "%{y}<br>%{hovertext}<extra></extra>",
            }
        )
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "without errors",
            "y": labels,
            "x": [_short(scale * plan.step_s) for plan in plans],
            "marker": {"size": 11, "color": colours},
            "hovertext": [hover(plan) for plan in plans],
            "hovertemplate": "%{hovertext}<extra></extra>",
        }
    )
    chances = [
        {
            "xref": "paper",
            "x": 1.0,
            "xanchor": "right",
            "y": label,
            "text": chance_text(outcome, place),
            "showarrow": False,
            "font": {"size": 12},
        }
        for place, label in enumerate(labels)
        if chance_text(outcome, place)
    ]
    if chances:
        head = {"xref": "paper", "yref": "paper", "x": 1.0, "xanchor": "right", "y": 1.0, "yanchor": "bottom"}
        chances.append({**head, "text": "fastest in", "showarrow": False, "font": {"size": 12}})
    ends = [scale * value for band in bands if band is not None for value in (band[0], band[2])]
    ends += [scale * plan.step_s for plan in plans]
    low, high = min(ends), max(ends)
    width = (high - low) or 0.1 * high
    x = axis(f"time of one step ({unit})", range=[low - 0.04 * width, high + 0.16 * width])
    return figure(traces, x, _rows(labels), 120 + 40 * len(labels), annotations=chances, hovermode="closest")


def against_estimates(outcome: TuningOutcome) -> Figure:
    """Simulated against estimated steps, with the diagonal."""
    scale, unit = scale_of(outcome.best.step_s)
    plans = outcome.simulated
    values = [scale * value for plan in plans for value in (plan.step_s, plan.estimate.step_s)]
    low, high = min(values), max(values)
    margin = 0.06 * ((high - low) or high)
    ends = [_short(low - margin), _short(high + margin)]
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "equal",
            "x": ends,
            "y": ends,
            "line": {"dash": "dot", "width": 1.5, "color": "#7F7F7F"},
            "hoverinfo": "skip",
        }
    ]
    for kind in KINDS:
        own_plans = [plan for plan in plans if kind_of(plan.candidate) == kind]
        if own_plans:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": kind,
                    "x": [_short(scale * plan.estimate.step_s) for plan in own_plans],
                    "y": [_short(scale * plan.step_s) for plan in own_plans],
                    "marker": {"size": 10, "color": COLOURS[kind]},
                    "hovertext": [hover(plan) for plan in own_plans],
                    "hovertemplate": "%{hovertext}<extra></extra>",
                }
            )
    x = axis(f"estimated, no sharing of links ({unit})", range=ends)
    return figure(traces, x, axis(f"simulated ({unit})", range=ends), 460, hovermode="closest")


def parts(outcome: TuningOutcome) -> Figure:
    """Stacked bars of what each simulated plan spends its step on, the fastest on top."""
    scale, unit = scale_of(outcome.best.step_s)
    plans = [(plan, plan.simulated) for plan in outcome.simulated if plan.simulated]
    labels = [row_label(place, plan) for place, (plan, _) in enumerate(plans, start=1)]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": part.name,
            "y": labels,
            "x": [_short(scale * simulated.parts[key]) for _, simulated in plans],
            "customdata": [
                f"{quantity(simulated.parts[key], 's')}, {percent(simulated.parts[key] / simulated.step_s)}"
                for _, simulated in plans
            ],
            "marker": {"color": part.colour},
            "hovertemplate": f"%{{y}}<br>{part.name}: %{{customdata}}<extra></extra>",
        }
        for key, part in PARTS.items()
        if any(simulated.parts[key] for _, simulated in plans)
    ]
    x = axis(f"time of one step ({unit})")
    return figure(traces, x, _rows(labels), 130 + 38 * len(labels), barmode="stack", bargap=0.3)


def hover(plan: TunedPlan) -> str:
    """The hover text of a plan."""
    words = f"<b>{text(plan.candidate.name)}</b><br>{quantity(plan.step_s, 's')}, {quantity(plan.peak_bytes, 'bytes')}"
    if plan.simulated is None:
        return f"{words}, estimated; floor {quantity(plan.estimate.floor_s, 's')}"
    band = band_words(plan.simulated.band_s)
    words += f", simulated{f'; nine samples of ten: {band}' if band else ''}"
    return f"{words}<br>estimated {quantity(plan.estimate.step_s, 's')}"


def row_label(place: int, plan: TunedPlan) -> str:
    """A plan as the label of a row, on two lines."""
    return f"{place}. {text(plan.candidate.layout)}<br>{text(plan.candidate.of_the_batch)}"


def scale_of(seconds: float) -> tuple[float, str]:
    """The unit of a chart's axis of times, and what to multiply seconds by."""
    return (1.0, "s") if seconds >= 1.0 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")


def _rows(labels: Iterable[str]) -> dict[str, Any]:
    names = list(labels)
    return axis(
        "",
        autorange="reversed",
        type="category",
        categoryorder="array",
        categoryarray=names,
        tickfont={"size": 11},
    )


def _short(value: float) -> float:
    """Six digits are more than a chart shows."""
    return float(f"{value:.6g}")
