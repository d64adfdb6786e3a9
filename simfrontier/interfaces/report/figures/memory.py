"""Areas of what a device holds over a step."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

import numpy as np

from simfrontier.base.arrays import Floats
from simfrontier.core.engine import MemoryTimeline
from simfrontier.interfaces.report.theme import (
    BYTES,
    INK,
    MEMORY_COLOURS,
    SECONDS,
    Figure,
    PlotTrace,
    axis,
    capacity,
    figure,
    packed,
    scatter,
)

MOST_CHANGES: Final = 2000  # of what is held, that are drawn; it is more than there are pixels


def drawn_memory(held: MemoryTimeline) -> tuple[Floats, Mapping[str, Floats]]:
    """Return what is held from each time to the next, by kind; of more changes than are drawn, the one of each stretch
    at which the most is held."""
    if len(held.times) <= MOST_CHANGES:
        return held.times, held.held
    total = np.sum(list(held.held.values()), axis=0)
    edges = np.linspace(0, len(total), MOST_CHANGES + 1).astype(int).tolist()
    fullest = [first + int(total[first:after].argmax()) for first, after in pairwise(edges)]
    return held.times[edges[:-1]], {kind: values[fullest] for kind, values in held.held.items()}


def areas(held: MemoryTimeline, capacity_bytes: float) -> Figure:
    """Stacked areas, the lasting kinds at the bottom; numbers travel as packed 32-bit floats."""
    last = float(held.times[-1])
    drawn_s, by_kind = drawn_memory(held)
    times = packed(drawn_s)
    traces: list[PlotTrace] = []
    for kind in [*MEMORY_COLOURS, *sorted(set(held.held) - set(MEMORY_COLOURS))]:
        values = by_kind.get(kind)
        if values is None or not values.any():
            continue
        colour = MEMORY_COLOURS.get(kind, MEMORY_COLOURS["other"])
        hover = f"{kind}: %{{y:.4~s}}B<extra></extra>"
        look = {"line": {"shape": "hv", "width": 0, "color": colour}, "fillcolor": colour, "hovertemplate": hover}
        area = scatter(kind, (), (), "lines", stackgroup="held", **look)
        traces.append(area | {"x": times, "y": packed(values)})
    traces.append(capacity([0, last], capacity_bytes))
    mark = {"symbol": "circle-open", "size": 11, "color": INK, "line": {"width": 2}}
    hover = "peak: %{y:.4~s}B<extra></extra>"
    traces.append(scatter("peak", [held.peak_s], [held.peak_bytes], marker=mark, hovertemplate=hover))
    x = axis("time since the start of the step", range=[0, last], hoverformat=".4~s", **SECONDS)
    return figure(traces, x, axis("memory", rangemode="tozero", **BYTES), 440, hovermode="x unified")
