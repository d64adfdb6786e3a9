"""The chart of softmaxes: seconds of a step by part, per plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape as text
from typing import Any, Final

from simfrontier.report.theme import COMPUTE, LEVEL_COLOURS, Figure, axis, figure
from simfrontier_extras.softmax.study_findings import PlanSoftmaxes

PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "scores_s": ("softmax of attention", "#3E8E8C"),
    "loss_s": ("kernels of the loss", COMPUTE),
    "calls_s": ("collectives of the loss", LEVEL_COLOURS["intra_node"]),
}


def bars(plans: Sequence[PlanSoftmaxes]) -> Figure:
    """Stacked horizontal bars, the scenario's first plan on top; parts that no plan has are left out."""
    longest = max((one.spent.seconds for one in plans), default=1.0)
    scale, unit = (1e3, "ms") if longest >= 1e-3 else (1e6, "µs")
    traces: list[dict[str, Any]] = []
    for part, (name, colour) in PARTS.items():
        values = [scale * getattr(one.spent, part) for one in plans]
        if any(values):
            traces.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": name,
                    "y": [text(one.plan) for one in plans],
                    "x": values,
                    "marker": {"color": colour},
                    "hovertemplate": f"<b>%{{y}}</b><br>{name}: %{{x:.4~g}} {unit}<extra></extra>",
                }
            )
    rows = {
        "autorange": "reversed",
        "type": "category",
        "categoryorder": "array",
        "categoryarray": [one.plan for one in plans],
    }
    height = 130 + 40 * len(plans)
    return figure(traces, axis(f"time per step ({unit})"), {**axis(""), **rows}, height, barmode="stack")
