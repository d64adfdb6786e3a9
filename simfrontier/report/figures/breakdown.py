"""Bars of the parts of a step."""

from __future__ import annotations

from collections.abc import Sequence

from simfrontier.records import dataclass
from simfrontier.report.findings.breakdown import StepParts
from simfrontier.report.phrases import TOO_BIG
from simfrontier.report.theme import (
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
    rows,
    scatter,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPart:
    """A part of a step (a field of `Exposure`): its name in a legend, in a narrow column, and its colour."""

    name: str
    short: str
    colour: str


PARTS: dict[str, StepPart] = {
    "compute": StepPart(name="compute", short="compute", colour=COMPUTE),
    **{
        level: StepPart(name=f"exposed, {LEVEL_NAMES[level]}", short=LEVEL_NAMES[level], colour=colour)
        for level, colour in LEVEL_COLOURS.items()
    },
    "codec": StepPart(name="codec and reordering", short="codec and reordering", colour=CODEC),
    "idle": StepPart(name="idle", short="idle", colour=IDLE),
}


def step_bars(steps: Sequence[StepParts]) -> Figure:
    """Stacked horizontal bars of one size, the scenario's first plan on top, with a mark at the lower bound."""
    labels = [step.plan if step.fits else f"{step.plan}<br>({TOO_BIG})" for step in steps]
    traces = [
        bars(
            part.name,
            labels,
            [None if step.parts_s is None else step.parts_s[key] for step in steps],
            part.colour,
            "s",
        )
        for key, part in PARTS.items()
    ]
    bounds = [step.bound_s for step in steps]
    mark = {"symbol": "line-ns-open", "size": 22, "color": INK, "line": {"width": 2.5, "color": INK}}
    hover = "<b>%{y}</b><br>lower bound: %{x:.4~s}s<extra></extra>"
    traces.append(scatter("lower bound", bounds, labels, marker=mark, hovertemplate=hover))
    return figure(
        traces,
        axis("time of one nominal step", **SECONDS),
        axis("", **rows(labels)),
        150 + 46 * len(steps),
        barmode="stack",
        bargap=0.35,
    )
