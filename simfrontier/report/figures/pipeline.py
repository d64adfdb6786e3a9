"""Charts of a pipeline: what every stage does when, and its memory."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from simfrontier.analysis import OUTSIDE, Stages, StageSpan
from simfrontier.report.phrases import quantity
from simfrontier.report.theme import IDLE, MEMORY_COLOURS, Figure, axis, figure

IDLE_NAME = "idle (bubble)"
COLOURS = {"forward": "#3D7EA6", "backward": "#C66B3D", "exchange": "#8E1230", "end": "#7D8B96"}
NAMES = {
    "forward": "forward",
    "backward": "backward, recomputation included",
    "exchange": "exchange with a neighbour",
    "end": "reductions and optimizer",
}
_OUTSIDE_COLOUR = "#6B5B95"
_BAR, _BESIDE = (0.84, -0.42), (0.16, 0.26)  # width and offset in a lane; exchanges that run beside lie at its foot


def lanes(stages: Stages) -> Figure:
    """A row per stage, one trace per colour; behind them the pipeline's time, grey where nothing covers it."""
    scale, unit = (1.0, "s") if stages.step_s >= 1.0 else (1e3, "ms")
    rows = [stage.stage for stage in stages.stages]
    behind: dict[str, Any] = {
        **_trace(IDLE_NAME, IDLE, _BAR),
        "base": [0.0] * len(rows),
        "x": [round(scale * stages.pipeline_s, 9)] * len(rows),
        "y": rows,
        "hoverinfo": "skip",
    }
    traces = [behind, *_bars(stages, scale)]
    names = {
        "tickvals": rows,
        "ticktext": [f"stage {row}" for row in rows],
        "range": [len(rows) - 0.5, -0.5],
        "fixedrange": True,
    }
    x = axis(f"time since the start of the step ({unit})", range=[0, scale * stages.step_s])
    height = 150 + max(22, min(46, 480 // len(rows))) * len(rows)
    more = {"barmode": "overlay", "dragmode": "zoom", "uniformtext": {"minsize": 8, "mode": "hide"}}
    return figure(traces, x, axis("", **names), height, **more)


def _bars(stages: Stages, scale: float) -> Iterator[dict[str, Any]]:
    for kind, name in NAMES.items():
        for beside in (False, True):
            spans = [
                (stage.stage, span)
                for stage in stages.stages
                for span in stage.spans
                if span.kind == kind and span.beside == beside and span.end_s > span.start_s
            ]
            if not spans:
                continue
            numbered = kind in ("forward", "backward")
            words = {"text": [str(span.micro) for _, span in spans], "textposition": "inside"} if numbered else {}
            yield {
                **_trace(f"{name}, beside the rest" if beside else name, COLOURS[kind], _BESIDE if beside else _BAR),
                "base": [round(scale * span.start_s, 9) for _, span in spans],
                "x": [round(scale * (span.end_s - span.start_s), 9) for _, span in spans],
                "y": [stage for stage, _ in spans],
                "hovertext": [_hover(stage, span) for stage, span in spans],
                "hovertemplate": f"%{{hovertext}}<extra>{name}</extra>",
                **words,
            }


def _trace(name: str, colour: str, place: tuple[float, float]) -> dict[str, Any]:
    width, offset = place
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "width": width,
        "offset": offset,
        "marker": {"color": colour, "line": {"width": 0}},
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"color": "#ffffff", "size": 11},
    }


def _hover(stage: int, span: StageSpan) -> str:
    first, last = span.layers
    of = f", micro-batch {span.micro}" if span.kind != "end" else ""
    layers = ""
    if span.kind in ("forward", "backward"):
        layers = f"<br>layer {first}" if first == last else f"<br>layers {first} to {last}"
    return f"stage {stage}{of}{layers}<br>{quantity(span.end_s - span.start_s, 's')} from {quantity(span.start_s, 's')}"


def memory_bars(stages: Stages, capacity_bytes: float) -> Figure:
    """A bar per stage, stacked by kind; what is not of a layer on top, below the line of the capacity."""
    most = max(stage.peak_bytes for stage in stages.stages)
    giga, unit = (1e9, "GB") if most >= 1e8 else (1e6, "MB")
    labels = [f"{stage.stage}" for stage in stages.stages]
    colours = {**MEMORY_COLOURS, OUTSIDE: _OUTSIDE_COLOUR}
    traces: list[dict[str, Any]] = [
        {
            "type": "bar",
            "name": kind,
            "x": labels,
            "y": [stage.held.get(kind, 0) / giga for stage in stages.stages],
            "marker": {"color": colour},
            "hovertemplate": f"<b>stage %{{x}}</b><br>{escape(kind)}: %{{y:.4~g}} {unit}<extra></extra>",
        }
        for kind, colour in colours.items()
        if any(stage.held.get(kind) for stage in stages.stages)
    ]
    if capacity_bytes <= 3 * most:  # a line far above the bars would only make them small
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": "capacity",
                "x": labels,
                "y": [capacity_bytes / giga] * len(labels),
                "line": {"dash": "dash", "width": 2, "color": "#B22222"},
                "hoverinfo": "skip",
            }
        )
    x = axis("stage", type="category")
    return figure(traces, x, axis(f"memory at the peak ({unit})", rangemode="tozero"), 420, barmode="stack", bargap=0.3)
