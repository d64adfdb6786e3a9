"""The chart of a fit's residuals: errors over the size of the message, fitted and left out, by number of devices."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape as text

from simfrontier.accuracy import ComparedRow
from simfrontier.measured import CallRow
from simfrontier.report.figures.validation import USE_MARKS, USE_NAMES, clipped
from simfrontier.report.findings.rows import row_name
from simfrontier.report.phrases import binary, signed
from simfrontier.report.theme import LINE, Figure, axis, figure, points, powers_of_two

FAR = 60.0  # per cent that the chart shows at most; farther points lie on its edge
MAX_TICKS = 12


def residual_figure(rows: Sequence[ComparedRow]) -> Figure:
    """Error of every point over its bytes, on a logarithmic axis."""
    traces = []
    for use, mark in USE_MARKS.items():
        held = [row for row in rows if row.use == use and row.error is not None]
        sizes = [row.row.num_bytes for row in held if isinstance(row.row, CallRow)]
        if sizes:
            errors = [clipped(row.error, FAR) for row in held]
            words = [f"{text(row_name(row.row))}: {signed(row.error)}" for row in held]
            look = {"size": 7, "opacity": 0.75}
            traces.append(points(USE_NAMES[use], sizes, errors, mark.colour, mark.symbol, words, look))
    every = [size for trace in traces for size in trace["x"]]
    ticks = powers_of_two(min(every), max(every), MAX_TICKS)
    x = axis("message (bytes)", type="log", tickvals=ticks, ticktext=[binary(tick) for tick in ticks])
    y = axis("predicted / measured − 1 (%)", range=[-1.05 * FAR, 1.05 * FAR], zeroline=True, zerolinecolor=LINE)
    return figure(traces, x, y, 420)
