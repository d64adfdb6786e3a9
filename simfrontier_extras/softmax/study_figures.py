"""The chart of softmaxes: seconds of a step by part, per plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape as text
from typing import Final

from simfrontier.interfaces.report.theme import (
    COMPUTE,
    LEVEL_COLOURS,
    SECONDS,
    Figure,
    PlotTrace,
    axis,
    bars,
    figure,
    rows,
)
from simfrontier_extras.softmax.study_findings import PlanSoftmaxes

PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "scores_s": ("softmax of attention", "#3E8E8C"),
    "loss_s": ("kernels of the loss", COMPUTE),
    "calls_s": ("collectives of the loss", LEVEL_COLOURS["intra_node"]),
}


def softmax_bars(plans: Sequence[PlanSoftmaxes]) -> Figure:
    """Stacked horizontal bars, the scenario's first plan on top; parts that no plan has are left out."""
    traces: list[PlotTrace] = []
    for part, (name, colour) in PARTS.items():
        values = [getattr(one.spent, part) for one in plans]
        if any(values):
            traces.append(bars(name, [text(one.plan) for one in plans], values, colour, "s"))
    height = 130 + 40 * len(plans)
    y = axis("", **rows([one.plan for one in plans]))
    return figure(traces, axis("time per step", **SECONDS), y, height, barmode="stack")
