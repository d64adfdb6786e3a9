"""Charts of a pipeline: what every stage does when, and its memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from simfrontier.answers.step import OUTSIDE, Stages, StageSpan
from simfrontier.interfaces.report.phrases import quantity
from simfrontier.interfaces.report.theme import (
    BYTES,
    IDLE,
    MEMORY_COLOURS,
    SECONDS,
    Figure,
    PlotTrace,
    axis,
    capacity,
    figure,
    lanes_axis,
    spans,
)

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
    rows = [stage.stage for stage in stages.stages]
    whole = _trace(IDLE_NAME, IDLE, _BAR, rows, [0.0] * len(rows), [stages.pipeline_s] * len(rows))
    traces = [whole | {"hoverinfo": "skip"}, *_bars(stages)]
    x = axis("time since the start of the step", range=[0, stages.step_s], **SECONDS)
    height = 150 + max(22, min(46, 480 // len(rows))) * len(rows)
    more = {"barmode": "overlay", "dragmode": "zoom", "uniformtext": {"minsize": 8, "mode": "hide"}}
    return figure(traces, x, lanes_axis("", [f"stage {row}" for row in rows]), height, **more)


def _bars(stages: Stages) -> Iterator[PlotTrace]:
    for kind, name in NAMES.items():
        for beside in (False, True):
            found = [
                (stage.stage, span)
                for stage in stages.stages
                for span in stage.spans
                if span.kind == kind and span.beside == beside and span.end_s > span.start_s
            ]
            if not found:
                continue
            words: PlotTrace = {"hovertext": [_hover(*each) for each in found]}
            words["hovertemplate"] = f"%{{hovertext}}<extra>{name}</extra>"
            if kind in ("forward", "backward"):
                words |= {"text": [str(span.micro) for _, span in found], "textposition": "inside"}
            title, place = (f"{name}, beside the rest", _BESIDE) if beside else (name, _BAR)
            rows, starts = [stage for stage, _ in found], [span.start_s for _, span in found]
            yield _trace(title, COLOURS[kind], place, rows, starts, [span.end_s for _, span in found]) | words


def _trace(
    name: str,
    colour: str,
    place: tuple[float, float],
    rows: Sequence[int],
    starts: Sequence[float],
    ends: Sequence[float],
) -> PlotTrace:
    """Bars of stages."""
    look = {"insidetextanchor": "middle", "textangle": 0, "textfont": {"color": "#ffffff", "size": 11}}
    return spans(name, rows, starts, ends, colour, width=place[0], offset=place[1], **look)


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
    labels = [f"{stage.stage}" for stage in stages.stages]
    colours = {**MEMORY_COLOURS, OUTSIDE: _OUTSIDE_COLOUR}
    traces: list[PlotTrace] = [
        {
            "type": "bar",
            "name": kind,
            "x": labels,
            "y": [stage.held.get(kind, 0) for stage in stages.stages],
            "marker": {"color": colour},
            "hovertemplate": f"<b>stage %{{x}}</b><br>{escape(kind)}: %{{y:.4~s}}B<extra></extra>",
        }
        for kind, colour in colours.items()
        if any(stage.held.get(kind) for stage in stages.stages)
    ]
    if capacity_bytes <= 3 * most:  # a line far above the bars would only make them small
        traces.append(capacity(labels, capacity_bytes))
    x = axis("stage", type="category")
    return figure(traces, x, axis("memory at the peak", rangemode="tozero", **BYTES), 420, barmode="stack", bargap=0.3)
