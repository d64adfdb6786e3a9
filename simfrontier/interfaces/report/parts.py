"""Charts of the parts of a step: time, bytes sent, and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from simfrontier.base.arrays import Floats
from simfrontier.core.engine import MemoryTimeline
from simfrontier.interfaces.report import theme
from simfrontier.interfaces.report.view import Row

MOST_CHANGES: Final = 2000  # of what is held, that are drawn; it is more than there are pixels


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPart:
    """A part of a nominal step: its column in the result rows, its name in a legend and in a narrow table column, and
    its colour."""

    column: str
    name: str
    short: str
    colour: str


PARTS: dict[str, StepPart] = {  # by the fields of `answers.step.Exposure`
    "compute": StepPart(column="compute_time_s", name="compute", short="compute", colour=theme.COMPUTE),
    **{
        level: StepPart(
            column=f"exposed_{level}_s",
            name=f"exposed, {theme.LEVEL_NAMES[level]}",
            short=theme.LEVEL_NAMES[level],
            colour=colour,
        )
        for level, colour in theme.LEVEL_COLOURS.items()
    },
    "codec": StepPart(
        column="exposed_codec_s", name="codec and reordering", short="codec and reordering", colour=theme.CODEC
    ),
    "host": StepPart(column="exposed_host_s", name="the host's code", short="host", colour=theme.HOST),
    "idle": StepPart(column="exposed_idle_s", name="idle", short="idle", colour=theme.IDLE),
}


def step_bars(rows: Sequence[Row]) -> theme.Figure:
    """Plot stacked horizontal bars of the step's parts for rows of one size, the first row on top, with a mark at the
    lower bound."""
    labels = theme.plan_labels(rows)
    traces = [
        theme.bars(part.name, labels, [row[part.column] for row in rows], part.colour, "s") for part in PARTS.values()
    ]
    mark = {"symbol": "line-ns-open", "size": 22, "color": theme.INK, "line": {"width": 2.5, "color": theme.INK}}
    hover = "<b>%{y}</b><br>lower bound: %{x:.4~s}s<extra></extra>"
    traces.append(
        theme.scatter("lower bound", [row["bound_s"] for row in rows], labels, marker=mark, hovertemplate=hover)
    )
    x, y = theme.axis("time of one nominal step", **theme.SECONDS), theme.axis("", **theme.rows(labels))
    return theme.figure(traces, x, y, 150 + 46 * len(rows), barmode="stack", bargap=0.35)


TRAFFIC_PARTS = {  # of columns bytes_PART, in the order of the stack: name and colour
    **{
        level: (theme.LEVEL_NAMES[level], theme.LEVEL_COLOURS[level])
        for level in ("package", "intra_node", "inter_node")
    },
    "scales": ("scales of codecs", "#8E6BBF"),
    "padding": ("padding", "#B9B9B3"),
    "fallback": ("gradients that fell back", "#5E8C9A"),
    "persisted": ("weights kept whole", "#3F5A66"),
}


def traffic_bars(rows: Sequence[Row], device: str) -> theme.Figure:
    """Plot stacked horizontal bars of the bytes sent per device for rows of one size, coloured by hardware level."""
    labels = theme.plan_labels(rows)
    traces = [
        theme.bars(name, labels, [row[f"bytes_{part}"] / row["devices"] for row in rows], colour, "B")
        for part, (name, colour) in TRAFFIC_PARTS.items()
        if any(row[f"bytes_{part}"] for row in rows)
    ]
    x, y = theme.axis(f"sent per {device} and step", **theme.BYTES), theme.axis("", **theme.rows(labels))
    return theme.figure(traces, x, y, 150 + 46 * len(rows), barmode="stack", bargap=0.35)


def drawn_memory(held: MemoryTimeline) -> tuple[Floats, Mapping[str, Floats]]:
    """Return times and, by kind of tensor, the memory held from each time to the next. If there are more changes than
    can be drawn, each stretch of time is represented by the change with the most memory."""
    if len(held.times) <= MOST_CHANGES:
        return held.times, held.held
    total = np.sum(list(held.held.values()), axis=0)
    edges = np.linspace(0, len(total), MOST_CHANGES + 1).astype(int).tolist()
    fullest = [first + int(total[first:after].argmax()) for first, after in pairwise(edges)]
    return held.times[edges[:-1]], {kind: values[fullest] for kind, values in held.held.items()}


def areas(held: MemoryTimeline, capacity_bytes: float) -> theme.Figure:
    """Plot memory over time as stacked areas, with the kinds that last longest at the bottom; numbers are stored as
    packed 32-bit floats."""
    last = float(held.times[-1])
    drawn_s, by_kind = drawn_memory(held)
    times = theme.packed(drawn_s)
    traces: list[theme.PlotTrace] = []
    for kind in [*theme.MEMORY_COLOURS, *sorted(set(held.held) - set(theme.MEMORY_COLOURS))]:
        values = by_kind.get(kind)
        if values is None or not values.any():
            continue
        colour = theme.MEMORY_COLOURS.get(kind, theme.MEMORY_COLOURS["other"])
        hover = f"{kind}: %{{y:.4~s}}B<extra></extra>"
        look = {"line": {"shape": "hv", "width": 0, "color": colour}, "fillcolor": colour, "hovertemplate": hover}
        area = theme.scatter(kind, (), (), "lines", stackgroup="held", **look)
        traces.append(area | {"x": times, "y": theme.packed(values)})
    traces.append(theme.capacity([0, last], capacity_bytes))
    mark = {"symbol": "circle-open", "size": 11, "color": theme.INK, "line": {"width": 2}}
    hover = "peak: %{y:.4~s}B<extra></extra>"
    traces.append(theme.scatter("peak", [held.peak_s], [held.peak_bytes], marker=mark, hovertemplate=hover))
    x = theme.axis("time since the start of the step", range=[0, last], hoverformat=".4~s", **theme.SECONDS)
    return theme.figure(traces, x, theme.axis("memory", rangemode="tozero", **theme.BYTES), 440, hovermode="x unified")
