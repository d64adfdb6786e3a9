"""The timeline of one step on one rank: lanes as rows, every operation a bar, coloured by what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from simfrontier.report.phrases import number, quantity
from simfrontier.report.theme import (
    CODEC,
    COMPUTE,
    LEVEL_COLOURS,
    LEVEL_NAMES,
    Figure,
    PlotTrace,
    axis,
    bar,
    faint,
    figure,
    lanes_axis,
)
from simfrontier.trace import Span, Trace

WAIT = "waiting for other ranks"
SPAN_COLOURS = {
    "matrix products": COMPUTE,
    "other kernels": "#A9BACB",
    "codec and reordering": CODEC,
    **{f"communication {LEVEL_NAMES[level]}": colour for level, colour in LEVEL_COLOURS.items()},
    "host": "#8C6D4F",
    WAIT: "#D9D9D9",
}
MOST = 12_000  # operations that a browser draws without delay
_LANES = ("host", "compute", "gather", "reduce")


def kind_of(span: Span) -> str:
    """Which colour an operation has."""
    if span.level:
        return f"communication {LEVEL_NAMES[span.level]}"
    if span.lane == "host":
        return "host"
    if span.lane != "compute":
        return "codec and reordering"
    return "matrix products" if span.kind == "matmul" else "other kernels"


def bars(trace: Trace) -> Figure:
    """The first rank's spans, one trace per colour: a bar from start to end in its lane, and one for each wait."""
    spans = trace.spans[0][:MOST]
    longest = max((span.end_s for span in spans), default=0.0)
    scale, unit = (1.0, "s") if longest >= 1.0 else (1e3, "ms")
    lanes = lanes_of(spans)
    traces = list(lane_bars(spans, lanes, scale, kind_of, SPAN_COLOURS).values())
    whole = max((span.end_s for span in trace.spans[0]), default=0.0)
    cut = (
        f"; the first {number(scale * longest)} of {number(scale * whole)} {unit}" if len(trace.spans[0]) > MOST else ""
    )
    x = axis(f"time since the start of the step ({unit}){cut}", range=[0, scale * longest])
    height = 150 + 72 * len(lanes)
    return figure(traces, x, lanes_axis("", lanes), height, barmode="overlay", bargap=0.2, dragmode="zoom")


def lanes_of(spans: Iterable[Span]) -> list[str]:
    """The lanes that ops are on, in the order in which they are drawn."""
    there = {span.lane for span in spans}
    lanes = [lane for lane in _LANES if lane in there]
    return lanes + sorted(there - set(lanes))


def lane_bars(
    spans: Iterable[Span], lanes: Sequence[str], scale: float, kind: Callable[[Span], str], colours: Mapping[str, str]
) -> dict[str, PlotTrace]:
    """Bars from start to end in rows of lanes, and one for each wait, by colour; times in units of 1/scale seconds."""
    parts: dict[str, tuple[list[float], list[float], list[int], list[str]]] = {
        name: ([], [], [], []) for name in colours
    }
    row = {lane: number for number, lane in enumerate(lanes)}

    def add(kind: str, span: Span, start_s: float, end_s: float) -> None:
        bases, lengths, rows, words = parts[kind]
        bases.append(round(scale * start_s, 9))
        lengths.append(round(scale * (end_s - start_s), 9))
        rows.append(row[span.lane])
        words.append(describe(span, start_s, end_s))

    for span in spans:
        if span.level and span.start_s - span.ready_s > 1e-12:
            add(WAIT, span, span.ready_s, span.start_s)
        add(kind(span), span, span.start_s, span.end_s)
    return {
        name: bar(name, rows, lengths, colours[name], base=bases, width=0.78, offset=-0.39)
        | {
            # A touch short of opaque: Plotly widens opaque bars to a whole pixel, so that thousands of short ones would
            # hide what is between them.
            "marker": {"color": faint(colours[name], 0.99), "line": {"width": 0}},
            "hovertext": words,
            "hovertemplate": f"%{{hovertext}}<extra>{name}</extra>",
        }
        for name, (bases, lengths, rows, words) in parts.items()
        if bases
    }


def describe(span: Span, start_s: float, end_s: float) -> str:
    """What a reader sees of an operation: name, call, layer, micro-batch, time and bytes."""
    name = span.name if span.name.startswith(span.kind) or span.kind == span.name else f"{span.kind} {span.name}"
    axes = f" over {span.axes}" if span.axes else ""
    return (
        f"<b>{name}</b>{axes}<br>{span.call}, layer {span.layer}, micro-batch {span.micro}"
        f"<br>{quantity(end_s - start_s, 's')} from {quantity(start_s, 's')}<br>{quantity(span.num_bytes, 'bytes')}"
    )
