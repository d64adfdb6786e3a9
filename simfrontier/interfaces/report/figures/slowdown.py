"""Charts of degraded components: a bar for each case and plan, and for each plan a grid of nodes and positions, in the
colour of the slowdown when that device lags."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from simfrontier.base.units import times
from simfrontier.interfaces.report.theme import Figure, PlanMark, axis, figure, packed, rows, told_bars

if TYPE_CHECKING:
    from simfrontier.answers.slowdown import LaggingDevices, Slowdown

FEW_NODES: Final = 64  # with a gap between them
_SCALE: Final = ((0.0, "#FBEFD9"), (0.25, "#F2C14E"), (0.5, "#E07A3F"), (0.75, "#A4243B"), (1.0, "#4A1030"))
_LEAST: Final = 0.01  # that the scale of colours spans


def case_bars(found: Mapping[str, Any], marks: Mapping[str, PlanMark]) -> Figure:
    """A row per case, a bar per plan: by how much of a healthy step a step is longer."""
    cases, plans = found["cases"], found["plans"]
    traces = []
    for plan in plans:
        known = [(row, value) for row in cases if (value := row["slowdown"][plan]) is not None]
        words = [
            f"<b>{escape(plan)}</b>, {escape(row['label'])}: {times(value)}<br>{escape(row['why'][plan])}"
            for row, value in known
        ]
        longer = [100.0 * (value - 1.0) for _, value in known]
        traces.append(told_bars(plan, [row["label"] for row, _ in known], longer, marks[plan].colour, words))
    labels = [row["label"] for row in cases]
    x, y = axis("longer than a healthy step (%)", zeroline=True), axis("", **rows(labels))
    return figure(traces, x, y, 130 + (16 + 15 * len(plans)) * len(labels), barmode="group", bargap=0.25)


def device_grids(result: Slowdown, device: str) -> dict[str, Figure]:
    """A chart per plan: nodes across, positions in a node down, coloured by the slowdown when that device lags."""
    lagging = {one.plan: one.devices for one in result.plans if one.devices is not None}
    highest = max(float(np.nanmax(each.slowdown)) for each in lagging.values())
    return {plan: _grid(plan, each, highest, result, device) for plan, each in lagging.items()}


def _grid(plan: str, lagging: LaggingDevices, highest: float, result: Slowdown, device: str) -> Figure:
    per_node = result.devices_per_node
    of_class = np.append(np.array(lagging.slowdown), np.nan)  # nan where a device has no rank
    values = of_class[lagging.class_of].reshape(-1, per_node).T
    heat = {
        "type": "heatmap",
        "z": packed(values.ravel()) | {"shape": f"{per_node}, {values.shape[1]}"},
        "xgap": int(values.shape[1] <= FEW_NODES),
        "ygap": 1,
        "colorscale": _SCALE,
        "zmin": 1.0,
        "zmax": max(highest, 1.0 + _LEAST),
        "colorbar": {"title": {"text": "times a<br>healthy step"}, "thickness": 14},
        "hovertemplate": f"<b>{escape(plan)}</b>: {device} %{{y}} of node %{{x}} at {result.device_factor:g}: "
        "×%{z:.3f}<extra></extra>",
    }
    y = axis(device, autorange="reversed", fixedrange=True, dtick=per_node - 1)
    return figure([heat], axis("node"), y, 150 + 16 * per_node)
