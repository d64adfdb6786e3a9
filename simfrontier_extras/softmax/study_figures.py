"""The chart of softmaxes: seconds of a step by part, per plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape as text
from typing import Final

from simfrontier.report.theme import COMPUTE, LEVEL_COLOURS, Figure, PlotTrace, axis, bars, figure, rows
from simfrontier_extras.softmax.study_findings import PlanSoftmaxes

PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "scores_s": ("softmax of attention", "#3E8E8C"),
    "loss_s": ("kernels of the loss", COMPUTE),
    "calls_s": ("collectives of the loss", LEVEL_COLOURS["intra_node"]),
}


def softmax_bars(plans: Sequence[PlanSoftmaxes]) -> Figure:
    """Stacked horizontal bars, the scenario's first plan on top; parts that no plan has are left out."""
    longest = max((one.spent.seconds for one in plans), default=1.0)
    scale, unit = (1e3, "ms") if longest >= 1e-3 else (1e6, "µs")
    traces: list[PlotTrace] = []
    for part, (name, colour) in PARTS.items():
        values = [scale * getattr(one.spent, part) for one in plans]
        if any(values):
            traces.append(bars(name, [text(one.plan) for one in plans], values, colour, unit))
    height = 130 + 40 * len(plans)
    y = axis("", **rows([one.plan for one in plans]))
    return figure(traces, axis(f"time per step ({unit})"), y, height, barmode="stack")
