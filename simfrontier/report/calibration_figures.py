"""The chart of a fit's residuals: errors over the size of the message, fitted and left out, by number of devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simfrontier.measured import CallRow
from simfrontier.report.crosscheck_figures import LINE
from simfrontier.report.figures.validation import USE_MARKS, USE_NAMES, clipped
from simfrontier.report.findings.rows import row_name
from simfrontier.report.markup import Figure, text
from simfrontier.report.phrases import binary, signed
from simfrontier.report.theme import axis, figure, powers_of_two
from simfrontier.validation import ComparedRow

FAR = 60.0  # per cent that the chart shows at most; farther points lie on its edge
MAX_TICKS = 12


def residual_figure(rows: Sequence[ComparedRow]) -> Figure:
    """Error of every point over its bytes, on a logarithmic axis."""
    traces: list[dict[str, Any]] = []
    for use, mark in USE_MARKS.items():
        points = [(row, row.row, row.error) for row in rows if row.use == use]
        several = [(held, row, error) for held, row, error in points if isinstance(row, CallRow) and error is not None]
        if several:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": USE_NAMES[use],
                    "x": [row.num_bytes for _, row, _ in several],
                    "y": [clipped(error, FAR) for _, _, error in several],
                    "marker": {"color": mark.colour, "symbol": mark.symbol, "size": 7, "opacity": 0.75},
                    "hovertext": [f"{text(row_name(row))}: {signed(error)}" for _, row, error in several],
                    "hovertemplate": f"%{{hovertext}}<extra>{USE_NAMES[use]}</extra>",
                }
            )
    sizes = [size for trace in traces for size in trace["x"]]
    ticks = powers_of_two(min(sizes), max(sizes), MAX_TICKS)
    x = axis("message (bytes)", type="log", tickvals=ticks, ticktext=[binary(tick) for tick in ticks])
    y = axis("predicted / measured − 1 (%)", range=[-1.05 * FAR, 1.05 * FAR])
    return figure(traces, x, {**y, "zeroline": True, "zerolinecolor": LINE}, 420)
