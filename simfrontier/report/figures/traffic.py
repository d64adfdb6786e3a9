"""Bars of the bytes that a step sends."""

from __future__ import annotations

from simfrontier.report.findings.traffic import Traffic
from simfrontier.report.phrases import TOO_BIG
from simfrontier.report.theme import BYTES, LEVEL_COLOURS, LEVEL_NAMES, Figure, axis, bars, figure, rows

PARTS = {  # in the order of the stack: name and colour
    **{level: (LEVEL_NAMES[level], LEVEL_COLOURS[level]) for level in ("package", "intra_node", "inter_node")},
    "scales": ("scales of codecs", "#8E6BBF"),
    "padding": ("padding", "#B9B9B3"),
    "fallback": ("gradients that fell back", "#5E8C9A"),
    "persisted": ("weights kept whole", "#3F5A66"),
}


def traffic_bars(found: Traffic) -> Figure:
    """Stacked horizontal bars of bytes per device, in the levels' colours."""
    labels = [plan.plan if plan.fits else f"{plan.plan}<br>({TOO_BIG})" for plan in found.plans]
    traces = [
        bars(name, labels, [plan.sent_bytes[part] / found.devices for plan in found.plans], colour, "B")
        for part, (name, colour) in PARTS.items()
        if any(plan.sent_bytes[part] for plan in found.plans)
    ]
    x = axis(f"sent per {found.device_word} and step", **BYTES)
    return figure(traces, x, axis("", **rows(labels)), 150 + 46 * len(found.plans), barmode="stack", bargap=0.35)
