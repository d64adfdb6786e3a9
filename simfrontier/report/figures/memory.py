"""Areas of what a device holds over a step."""

from __future__ import annotations

from base64 import b64encode

import numpy as np
from numpy.typing import NDArray

from simfrontier.report.theme import INK, MEMORY_COLOURS, Figure, PlotTrace, axis, capacity, figure, scatter
from simfrontier.simulation import MemoryTimeline


def areas(held: MemoryTimeline, capacity_bytes: float) -> Figure:
    """Stacked areas, the lasting kinds at the bottom; numbers travel as packed 32-bit floats."""
    last = float(held.times[-1])
    scale, unit = (1.0, "s") if last >= 1.0 else (1e3, "ms")
    giga, size = (1e9, "GB") if held.peak_bytes >= 1e8 else (1e6, "MB")
    times = _packed(held.times * scale)
    traces: list[PlotTrace] = []
    for kind in [*MEMORY_COLOURS, *sorted(set(held.held) - set(MEMORY_COLOURS))]:
        values = held.held.get(kind)
        if values is None or not values.any():
            continue
        colour = MEMORY_COLOURS.get(kind, MEMORY_COLOURS["other"])
        hover = f"{kind}: %{{y:.2f}} {size}<extra></extra>"
        look = {"line": {"shape": "hv", "width": 0, "color": colour}, "fillcolor": colour, "hovertemplate": hover}
        area = scatter(kind, (), (), "lines", stackgroup="held", **look)
        traces.append(area | {"x": times, "y": _packed(values / giga)})
    traces.append(capacity([0, last * scale], capacity_bytes / giga))
    mark = {"symbol": "circle-open", "size": 11, "color": INK, "line": {"width": 2}}
    hover = f"peak: %{{y:.2f}} {size}<extra></extra>"
    traces.append(scatter("peak", [held.peak_s * scale], [held.peak_bytes / giga], marker=mark, hovertemplate=hover))
    x = axis(f"time since the start of the step ({unit})", range=[0, last * scale], hoverformat=".4~g")
    return figure(traces, x, axis(f"memory ({size})", rangemode="tozero"), 440, hovermode="x unified")


def _packed(values: NDArray[np.float64]) -> dict[str, str]:
    """A plotly typed array: little-endian 32-bit floats in base 64."""
    return {"dtype": "f4", "bdata": b64encode(values.astype("<f4").tobytes()).decode()}
