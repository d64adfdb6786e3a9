"""Bars of the bytes that a step sends."""

from __future__ import annotations

from collections.abc import Sequence

from simfrontier.interfaces.report.theme import (
    BYTES,
    LEVEL_COLOURS,
    LEVEL_NAMES,
    Figure,
    axis,
    bars,
    figure,
    plan_labels,
    rows as row_axis,
)
from simfrontier.interfaces.report.view import Row

PARTS = {  # of columns bytes_PART, in the order of the stack: name and colour
    **{level: (LEVEL_NAMES[level], LEVEL_COLOURS[level]) for level in ("package", "intra_node", "inter_node")},
    "scales": ("scales of codecs", "#8E6BBF"),
    "padding": ("padding", "#B9B9B3"),
    "fallback": ("gradients that fell back", "#5E8C9A"),
    "persisted": ("weights kept whole", "#3F5A66"),
}


def traffic_bars(rows: Sequence[Row], device: str) -> Figure:
    """Stacked horizontal bars of bytes per device, in the levels' colours, of rows of one size."""
    labels = plan_labels(rows)
    traces = [
        bars(name, labels, [row[f"bytes_{part}"] / row["devices"] for row in rows], colour, "B")
        for part, (name, colour) in PARTS.items()
        if any(row[f"bytes_{part}"] for row in rows)
    ]
    x, y = axis(f"sent per {device} and step", **BYTES), axis("", **row_axis(labels))
    return figure(traces, x, y, 150 + 46 * len(rows), barmode="stack", bargap=0.35)
