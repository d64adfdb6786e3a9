"""Memory over one step by kind of tensor, and the parts of the peak."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfrontier.report.markup import Figure, keyed, paragraph, plot, section, table
from simfrontier.report.phrases import percent, quantity
from simfrontier.report.theme import MEMORY_COLOURS, axis, figure
from simfrontier.report.view import StudyView
from simfrontier.simulation import MemoryTimeline


def memory(view: StudyView) -> str:
    """The section: stacked areas per plan at the largest size with the capacity, and the peaks of all plans."""
    capacity = view.scenario.machine.device.hbm_bytes
    figures = {o.plan: areas(o.memory, capacity) for o in view.drawn if o.memory is not None}
    shown = view.ranked[0].plan if view.ranked else None
    drawn = [f"{o.plan}: stage {o.stages.fullest.stage} of {len(o.stages.stages)}" for o in view.piped if o.stages]
    return section(
        "memory",
        "Memory over the step",
        paragraph(
            f"Bytes on {_whose(view)} at {view.largest:,} {view.devices}, by what they hold. A buffer lives from "
            "the operation that first writes it to the one that last uses it; the dashed line is the "
            f"{quantity(capacity, 'bytes')} that a {view.device} has. Not counted: fragmentation, and the workspaces "
            "of libraries."
        ),
        plot("fig-memory", figures, "Memory over one step by kind", shown if shown in figures else None)
        if figures
        else "",
        paragraph(f"Drawn: {'; '.join(drawn)}.", "note") if drawn else "",
        "<h3>At the peak</h3>",
        _table(view, capacity),
    )


def _whose(view: StudyView) -> str:
    if not view.piped:
        return "the critical rank"
    fullest = "a rank of the pipeline stage that needs most"
    return fullest if len(view.piped) == len(view.drawn) else f"the critical rank, or {fullest},"


def areas(held: MemoryTimeline, capacity_bytes: float) -> Figure:
    """Stacked areas, the lasting kinds at the bottom; numbers travel as packed 32-bit floats."""
    last = float(held.times[-1])
    scale, unit = (1.0, "s") if last >= 1.0 else (1e3, "ms")
    giga, size = (1e9, "GB") if held.peak_bytes >= 1e8 else (1e6, "MB")
    times = _packed(held.times * scale)
    traces: list[dict[str, Any]] = []
    for kind in [*MEMORY_COLOURS, *sorted(set(held.held) - set(MEMORY_COLOURS))]:
        values = held.held.get(kind)
        if values is None or not values.any():
            continue
        colour = MEMORY_COLOURS.get(kind, MEMORY_COLOURS["other"])
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": kind,
                "stackgroup": "held",
                "x": times,
                "y": _packed(values / giga),
                "line": {"shape": "hv", "width": 0, "color": colour},
                "fillcolor": colour,
                "hovertemplate": f"{kind}: %{{y:.2f}} {size}<extra></extra>",
            }
        )
    traces.append(
        {
            "type": "scatter",
            "mode": "lines",
            "name": "capacity",
            "x": [0, last * scale],
            "y": [capacity_bytes / giga] * 2,
            "line": {"dash": "dash", "width": 2, "color": "#B22222"},
            "hoverinfo": "skip",
        }
    )
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "peak",
            "x": [held.peak_s * scale],
            "y": [held.peak_bytes / giga],
            "marker": {"symbol": "circle-open", "size": 11, "color": "#111111", "line": {"width": 2}},
            "hovertemplate": f"peak: %{{y:.2f}} {size}<extra></extra>",
        }
    )
    x = axis(f"time since the start of the step ({unit})", range=[0, last * scale], hoverformat=".4~g")
    return figure(traces, x, axis(f"memory ({size})", rangemode="tozero"), 440, hovermode="x unified")


def _table(view: StudyView, capacity: float) -> str:
    known = [kind for kind in MEMORY_COLOURS if any(o.at_peak.get(kind) for o in view.drawn)]
    known += sorted({kind for o in view.drawn for kind in o.at_peak} - set(MEMORY_COLOURS))
    rows = []
    for outcome in view.drawn:
        peak = float(outcome.row["peak_memory_bytes"])
        cells = [
            quantity(outcome.at_peak.get(kind, 0), "bytes") if outcome.at_peak.get(kind) else "–" for kind in known
        ]
        share = f"{percent(peak / capacity)} of capacity"
        verdict = f"<small>{share}</small>" if outcome.row["fits"] else f'<small class="no">{share}</small>'
        name = keyed(view.marks[outcome.plan].colour, outcome.plan)
        rows.append([name, f"<b>{quantity(peak, 'bytes')}</b>{verdict}", *cells])
    heads = [keyed(MEMORY_COLOURS.get(kind, MEMORY_COLOURS["other"]), kind) for kind in known]
    return table(["plan", "peak", *heads], rows)


def _packed(values: NDArray[np.float64]) -> dict[str, str]:
    """A plotly typed array: little-endian 32-bit floats in base 64."""
    return {"dtype": "f4", "bdata": b64encode(values.astype("<f4").tobytes()).decode()}
