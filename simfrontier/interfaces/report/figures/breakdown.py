"""Bars of the parts of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simfrontier.interfaces.report.theme import (
    CODEC,
    COMPUTE,
    IDLE,
    INK,
    LEVEL_COLOURS,
    LEVEL_NAMES,
    SECONDS,
    Figure,
    axis,
    bars,
    figure,
    plan_labels,
    rows as row_axis,
    scatter,
)
from simfrontier.interfaces.report.view import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPart:
    """A part of a nominal step: its column in rows of results, its name in a legend, in a narrow column, and its
    colour."""

    column: str
    name: str
    short: str
    colour: str


PARTS: dict[str, StepPart] = {  # by the fields of `answers.step.Exposure`
    "compute": StepPart(column="compute_time_s", name="compute", short="compute", colour=COMPUTE),
    **{
        level: StepPart(
            column=f"exposed_{level}_s", name=f"exposed, {LEVEL_NAMES[level]}", short=LEVEL_NAMES[level], colour=colour
        )
        for level, colour in LEVEL_COLOURS.items()
    },
    "codec": StepPart(
        column="exposed_codec_s", name="codec and reordering", short="codec and reordering", colour=CODEC
    ),
    "idle": StepPart(column="exposed_idle_s", name="idle", short="idle", colour=IDLE),
}


def step_bars(rows: Sequence[Row]) -> Figure:
    """Stacked horizontal bars of rows of one size, the first on top, with a mark at the lower bound."""
    labels = plan_labels(rows)
    traces = [bars(part.name, labels, [row[part.column] for row in rows], part.colour, "s") for part in PARTS.values()]
    mark = {"symbol": "line-ns-open", "size": 22, "color": INK, "line": {"width": 2.5, "color": INK}}
    hover = "<b>%{y}</b><br>lower bound: %{x:.4~s}s<extra></extra>"
    traces.append(scatter("lower bound", [row["bound_s"] for row in rows], labels, marker=mark, hovertemplate=hover))
    x, y = axis("time of one nominal step", **SECONDS), axis("", **row_axis(labels))
    return figure(traces, x, y, 150 + 46 * len(rows), barmode="stack", bargap=0.35)
