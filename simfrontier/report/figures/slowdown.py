"""What trouble costs: a bar for each case and plan, and for each plan a grid of nodes and positions, in the colour of
the slowdown when that device lags."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from simfrontier.arrays import Floats, Ints
from simfrontier.records import dataclass
from simfrontier.report.findings.slowdown import SlowdownFindings
from simfrontier.report.theme import Figure, PlanMark, axis, figure, packed, rows, told_bars
from simfrontier.units import times

if TYPE_CHECKING:
    from simfrontier.slowdown import LaggingDevices, Slowdown

MOST_COLUMNS: Final = 64  # nodes of a grid that are drawn
_CELL, _TITLE, _BETWEEN = 11, 24, 26  # pixels of a position, of the title above a panel, and below it
_SCALE: Final = ((0.0, "#FBEFD9"), (0.25, "#F2C14E"), (0.5, "#E07A3F"), (0.75, "#A4243B"), (1.0, "#4A1030"))
_LEAST: Final = 0.01  # that the scale of colours spans


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DrawnNodes:
    """The columns of the grids: names of nodes, one node of each, how many nodes the job has, and how many are not
    drawn."""

    names: tuple[str, ...]
    nodes: Ints
    num_nodes: int
    left_out: int


def case_bars(found: SlowdownFindings, marks: Mapping[str, PlanMark]) -> Figure:
    """A row per case, a bar per plan: by how much of a healthy step a step is longer."""
    labels = [row.label for row in found.cases]
    traces = []
    for plan in found.plans:
        known = [(row, value) for row in found.cases if (value := row.slowdown[plan]) is not None]
        words = [
            f"<b>{escape(plan)}</b>, {escape(row.label)}: {times(value)}<br>{escape(row.why[plan])}"
            for row, value in known
        ]
        shown = [row.label for row, _ in known]
        longer = [100.0 * (value - 1.0) for _, value in known]
        traces.append(told_bars(plan, shown, longer, marks[plan].colour, words))
    x, y = axis("longer than a healthy step (%)", zeroline=True), axis("", **rows(labels))
    return figure(traces, x, y, 130 + (16 + 15 * len(found.plans)) * len(labels), barmode="group", bargap=0.25)


def drawn_nodes(result: Slowdown) -> DrawnNodes:
    """Every node, up to MOST_COLUMNS; of more, runs of nodes that are alike for all plans as one, and the first of
    these."""
    grids = [_by_node(one.devices, result.devices_per_node) for one in result.plans if one.devices is not None]
    num_nodes = grids[0].shape[0]
    if num_nodes <= MOST_COLUMNS:
        return DrawnNodes(
            names=tuple(map(str, range(num_nodes))), nodes=np.arange(num_nodes), num_nodes=num_nodes, left_out=0
        )
    alike = np.concatenate(grids, axis=1)
    begins = np.flatnonzero(np.concatenate([[True], (alike[1:] != alike[:-1]).any(axis=1)]))
    ends = np.append(begins[1:], num_nodes) - 1
    pairs = list(zip(begins.tolist(), ends.tolist(), strict=True))[:MOST_COLUMNS]
    names = tuple(str(a) if a == b else f"{a}–{b}" for a, b in pairs)
    return DrawnNodes(
        names=names, nodes=begins[:MOST_COLUMNS], num_nodes=num_nodes, left_out=num_nodes - 1 - pairs[-1][1]
    )


def device_grids(result: Slowdown, drawn: DrawnNodes, device: str) -> Figure:
    """A panel per plan: nodes across, positions in a node down, coloured by the slowdown when that device lags."""
    panels = [(one.plan, one.devices) for one in result.plans if one.devices is not None]
    per_node = result.devices_per_node
    panel = per_node * _CELL
    height = len(panels) * (panel + _TITLE + _BETWEEN)
    traces, axes, titles = [], dict[str, Any](), []
    for number, (plan, lagging) in enumerate(panels):
        place = "" if number == 0 else str(number + 1)
        values = _slowdowns(lagging, per_node)[drawn.nodes].T
        traces.append(
            {
                "type": "heatmap",
                "x": list(drawn.names),
                "z": packed(values.ravel()) | {"shape": f"{values.shape[0]}, {values.shape[1]}"},
                "xaxis": f"x{place}",
                "yaxis": f"y{place}",
                "coloraxis": "coloraxis",
                "xgap": 1,
                "ygap": 1,
                "name": plan,
                "hovertemplate": f"<b>{escape(plan)}</b>: {device} %{{y}} of node %{{x}} at {result.device_factor:g}: "
                "×%{z:.3f}<extra></extra>",
            }
        )
        top = 1.0 - (number * (panel + _TITLE + _BETWEEN) + _TITLE) / height
        bottom = max(0.0, top - panel / height)
        ends = [slowdown for slowdown in lagging.slowdown if np.isfinite(slowdown)]
        words = (
            times(min(ends)) if times(min(ends)) == times(max(ends)) else f"{times(min(ends))} to {times(max(ends))}"
        )
        titles.append(_title(f"<b>{escape(plan)}</b>: {words}", top))
        axes[f"yaxis{place}"] = axis(
            device, domain=[bottom, top], autorange="reversed", fixedrange=True, anchor=f"x{place}", dtick=per_node - 1
        )
        last = number == len(panels) - 1
        axes[f"xaxis{place}"] = axis("node" if last else "", type="category", anchor=f"y{place}", nticks=13)
    highest = max(slowdown for _, lagging in panels for slowdown in lagging.slowdown if np.isfinite(slowdown))
    bar = {
        "title": {"text": "times a<br>healthy step"},
        "thickness": 14,
        "len": min(1.0, 260 / height),
        "y": 1,
        "yanchor": "top",
    }
    colours = {"colorscale": _SCALE, "cmin": 1.0, "cmax": max(highest, 1.0 + _LEAST), "colorbar": bar}
    return figure(
        traces, axes.pop("xaxis"), axes.pop("yaxis"), height + 40, annotations=titles, coloraxis=colours, **axes
    )


def _by_node(lagging: LaggingDevices | None, per_node: int) -> Ints:
    assert lagging is not None
    return lagging.class_of.reshape(-1, per_node)


def _slowdowns(lagging: LaggingDevices, per_node: int) -> Floats:
    """[num_nodes, per_node] nan where a device has no rank."""
    known = np.append(np.array(lagging.slowdown), np.nan)
    return known[_by_node(lagging, per_node)]


def _title(words: str, top: float) -> dict[str, Any]:
    place = {"xref": "paper", "yref": "paper", "x": 0, "y": top, "xanchor": "left", "yanchor": "bottom"}
    return {"text": words, "showarrow": False, "align": "left", **place}
