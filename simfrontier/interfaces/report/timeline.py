"""Timelines of a step: of one rank, with a row per lane, and of a pipeline, with a row per stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from simfrontier.answers.step import OUTSIDE, Stages, StageSpan
from simfrontier.core.program import is_product
from simfrontier.core.trace import Mark, Span, TraceFile
from simfrontier.interfaces.report import theme
from simfrontier.interfaces.report.phrases import quantity
from simfrontier.interfaces.report.theme import HOST, spans

WAIT = "waiting for other ranks"
SPAN_COLOURS = {
    "matrix products": theme.COMPUTE,
    "other kernels": "#A9BACB",
    "codec and reordering": theme.CODEC,
    **{f"communication {theme.LEVEL_NAMES[level]}": colour for level, colour in theme.LEVEL_COLOURS.items()},
    "host": HOST,
    WAIT: "#D9D9D9",
}
MOST = 6000  # operations that a browser draws without delay; of more, short ones are joined
SHORT = 1 / 2000  # of the step: half a pixel
_LANES = ("host", "compute", "gather", "reduce")
IDLE_NAME = "idle (bubble)"
STAGE_COLOURS = {"forward": "#3D7EA6", "backward": "#C66B3D", "exchange": "#8E1230", "end": "#7D8B96"}
STAGE_NAMES = {
    "forward": "forward",
    "backward": "backward, recomputation included",
    "exchange": "exchange with a neighbour",
    "end": "reductions and optimizer",
}
_OUTSIDE_COLOUR = "#6B5B95"
_BAR, _BESIDE = (0.84, -0.42), (0.16, 0.26)  # width and offset in a lane; exchanges that run beside lie at its foot


def kind_of(span: Span) -> str:
    """Return the key of an operation's colour in the charts."""
    if span.level:
        return f"communication {theme.LEVEL_NAMES[span.level]}"
    if span.lane == "host":
        return "host"
    if span.lane != "compute":
        return "codec and reordering"
    return "matrix products" if is_product(span.kind) else "other kernels"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnBar:
    """A bar that stands for one operation, one wait, or several joined ones of the same kind; `until_s`: end of the
    last of them."""

    spans: tuple[Span, ...]
    kind: str
    start_s: float
    end_s: float
    until_s: float

    @property
    def words(self) -> str:
        """Return the hover text of the bar."""
        if len(self.spans) == 1:
            return describe(self.spans[0], self.start_s, self.end_s)
        took = f"{quantity(self.end_s - self.start_s, 's')} in all"
        when = f"between {quantity(self.start_s, 's')} and {quantity(self.until_s, 's')}"
        return f"<b>{len(self.spans)} short ones, joined</b><br>{took}<br>{when}"


def bars(file: TraceFile) -> theme.Figure:
    """Plot the first rank's spans, one trace per colour: a bar in its lane for each span and for each wait. If there
    are more than MOST bars, those that are too short to be visible are joined. Each mark is a vertical line across all
    lanes."""
    ops = file.first.spans[0]
    longest = max((span.end_s for span in ops), default=0.0)
    lanes, drawn = lanes_of(ops), bars_of(ops, kind_of)
    if len(ops) > MOST:
        by_lane = ([each for each in drawn if each.spans[0].lane == lane] for lane in lanes)
        drawn = [each for mine in by_lane for each in joined(mine, SHORT * longest)]
    traces = list(lane_bars(drawn, lanes, SPAN_COLOURS).values())
    x = theme.axis("time since the start of the step", range=[0, longest], **theme.SECONDS)
    height = 150 + 72 * len(lanes)
    more = _marks(file.marks) if file.marks else {}
    return theme.figure(
        traces, x, theme.lanes_axis("", lanes), height, barmode="overlay", bargap=0.2, dragmode="zoom", **more
    )


def _marks(marks: Sequence[Mark]) -> dict[str, Any]:
    """Return vertical lines at the times of the marks, with their texts next to them at different heights."""
    times = [mark.time_s for mark in marks]
    return {
        "shapes": [
            {"type": "line", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": {"width": 1, "dash": "dash"}}
            for x in times
        ],
        "annotations": [
            {"x": x, "y": 1, "yref": "paper", "yanchor": "top", "yshift": -16 * number, "xanchor": "left"}
            | {"text": mark.text, "showarrow": False, "bgcolor": "rgba(255,255,255,0.85)"}
            for number, (x, mark) in enumerate(zip(times, marks, strict=True))
        ],
    }


def joined(drawn: Sequence[DrawnBar], short_s: float) -> list[DrawnBar]:
    """Return the bars of a lane in which short neighbours are joined: bars shorter than `short_s` that begin within
    `short_s` of the first one become one bar per kind with the total duration of this kind; these bars follow each
    other from the begin of the first."""
    out: list[DrawnBar] = []
    short: list[DrawnBar] = []
    for each in sorted(drawn, key=lambda each: each.start_s):
        if each.end_s - each.start_s >= short_s:
            out.append(each)
            continue
        if short and each.start_s - short[0].start_s >= short_s:
            out += _by_kind(short)
            short = []
        short.append(each)
    return sorted([*out, *_by_kind(short)], key=lambda each: each.start_s)


def _by_kind(short: Sequence[DrawnBar]) -> Iterator[DrawnBar]:
    if len(short) <= 1:
        yield from short
        return
    at_s = short[0].start_s
    for kind in dict.fromkeys(each.kind for each in short):
        mine = [each for each in short if each.kind == kind]
        end_s = at_s + sum(each.end_s - each.start_s for each in mine)
        whole = tuple(span for each in mine for span in each.spans)
        yield DrawnBar(spans=whole, kind=kind, start_s=at_s, end_s=end_s, until_s=max(each.until_s for each in mine))
        at_s = end_s


def lanes_of(ops: Iterable[Span]) -> list[str]:
    """Return the lanes of the operations, in drawing order."""
    there = {span.lane for span in ops}
    lanes = [lane for lane in _LANES if lane in there]
    return lanes + sorted(there - set(lanes))


def bars_of(ops: Iterable[Span], kind: Callable[[Span], str]) -> list[DrawnBar]:
    """Return a bar for each span, and one for each wait before it."""
    made = []

    def add(kind: str, span: Span, start_s: float, end_s: float) -> None:
        made.append(DrawnBar(spans=(span,), kind=kind, start_s=start_s, end_s=end_s, until_s=end_s))

    for span in ops:
        if span.level and span.start_s - span.ready_s > 1e-12:
            add(WAIT, span, span.ready_s, span.start_s)
        add(kind(span), span, span.start_s, span.end_s)
    return made


def lane_bars(
    drawn: Iterable[DrawnBar], lanes: Sequence[str], colours: Mapping[str, str]
) -> dict[str, theme.PlotTrace]:
    """Return bars from start to end in the rows of their lanes, by colour."""
    parts: dict[str, list[DrawnBar]] = {name: [] for name in colours}
    for each in drawn:
        parts[each.kind].append(each)
    row = {lane: number for number, lane in enumerate(lanes)}
    # A touch short of opaque: Plotly widens opaque bars to a whole pixel, so that thousands of short ones would hide
    # what is between them.
    return {
        name: spans(
            name,
            [row[each.spans[0].lane] for each in mine],
            [each.start_s for each in mine],
            [each.end_s for each in mine],
            theme.faint(colours[name], 0.99),
            width=0.78,
            offset=-0.39,
            hovertext=[each.words for each in mine],
            hovertemplate=f"%{{hovertext}}<extra>{name}</extra>",
        )
        for name, mine in parts.items()
        if mine
    }


def op_name(span: Span) -> str:
    """Return the kind and name of an operation."""
    return span.name if span.name.startswith(span.kind) else f"{span.kind} {span.name}"


def describe(span: Span, start_s: float, end_s: float) -> str:
    """Return the hover text of an operation: name, collective call, layer, micro-batch, time and bytes."""
    axes = f" over {span.axes}" if span.axes else ""
    return (
        f"<b>{escape(op_name(span))}</b>{axes}<br>{span.call}, layer {span.layer}, micro-batch {span.micro}"
        f"<br>{quantity(end_s - start_s, 's')} from {quantity(start_s, 's')}<br>{quantity(span.num_bytes, 'bytes')}"
    )


def lanes(stages: Stages) -> theme.Figure:
    """Plot a row per pipeline stage, one trace per colour; behind the bars the pipeline's total time, which shows as
    grey where a stage is idle."""
    rows = [stage.stage for stage in stages.stages]
    whole = _trace(IDLE_NAME, theme.IDLE, _BAR, rows, [0.0] * len(rows), [stages.pipeline_s] * len(rows))
    traces = [whole | {"hoverinfo": "skip"}, *_stage_bars(stages)]
    x = theme.axis("time since the start of the step", range=[0, stages.step_s], **theme.SECONDS)
    height = 150 + max(22, min(46, 480 // len(rows))) * len(rows)
    more = {"barmode": "overlay", "dragmode": "zoom", "uniformtext": {"minsize": 8, "mode": "hide"}}
    return theme.figure(traces, x, theme.lanes_axis("", [f"stage {row}" for row in rows]), height, **more)


def _stage_bars(stages: Stages) -> Iterator[theme.PlotTrace]:
    for kind, name in STAGE_NAMES.items():
        for beside in (False, True):
            found = [
                (stage.stage, span)
                for stage in stages.stages
                for span in stage.spans
                if span.kind == kind and span.beside == beside and span.end_s > span.start_s
            ]
            if not found:
                continue
            words: theme.PlotTrace = {"hovertext": [_stage_words(*each) for each in found]}
            words["hovertemplate"] = f"%{{hovertext}}<extra>{name}</extra>"
            if kind in ("forward", "backward"):
                words |= {"text": [str(span.micro) for _, span in found], "textposition": "inside"}
            title, place = (f"{name}, beside the rest", _BESIDE) if beside else (name, _BAR)
            rows, starts = [stage for stage, _ in found], [span.start_s for _, span in found]
            yield _trace(title, STAGE_COLOURS[kind], place, rows, starts, [span.end_s for _, span in found]) | words


def _trace(
    name: str,
    colour: str,
    place: tuple[float, float],
    rows: Sequence[int],
    starts: Sequence[float],
    ends: Sequence[float],
) -> theme.PlotTrace:
    """Return one trace of bars of stages, in one colour."""
    look = {"insidetextanchor": "middle", "textangle": 0, "textfont": {"color": "#ffffff", "size": 11}}
    return spans(name, rows, starts, ends, colour, width=place[0], offset=place[1], **look)


def _stage_words(stage: int, span: StageSpan) -> str:
    first, last = span.layers
    of = f", micro-batch {span.micro}" if span.kind != "end" else ""
    layers = ""
    if span.kind in ("forward", "backward"):
        layers = f"<br>layer {first}" if first == last else f"<br>layers {first} to {last}"
    return f"stage {stage}{of}{layers}<br>{quantity(span.end_s - span.start_s, 's')} from {quantity(span.start_s, 's')}"


def memory_bars(stages: Stages, capacity_bytes: float) -> theme.Figure:
    """Plot a bar of memory per stage, stacked by kind; memory that belongs to no layer is on top, below the line of the
    device's capacity."""
    most = max(stage.peak_bytes for stage in stages.stages)
    labels = [f"{stage.stage}" for stage in stages.stages]
    colours = {**theme.MEMORY_COLOURS, OUTSIDE: _OUTSIDE_COLOUR}
    traces: list[theme.PlotTrace] = [
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
        traces.append(theme.capacity(labels, capacity_bytes))
    x = theme.axis("stage", type="category")
    return theme.figure(
        traces, x, theme.axis("memory at the peak", rangemode="tozero", **theme.BYTES), 420, barmode="stack", bargap=0.3
    )
