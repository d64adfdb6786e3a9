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
    longest = max((step.nominal_step_s for step in steps if step.nominal_step_s is not None), default=1.0)
    scale, unit = (1.0, "s") if longest >= 1.0 else (1e3, "ms")
    traces = [
        bars(
            part.name,
            labels,
            [None if step.parts_s is None else scale * step.parts_s[key] for step in steps],
            part.colour,
            unit,
        )
        for key, part in PARTS.items()
    ]
    bounds = [None if step.bound_s is None else scale * step.bound_s for step in steps]
    mark = {"symbol": "line-ns-open", "size": 22, "color": INK, "line": {"width": 2.5, "color": INK}}
    hover = f"<b>%{{y}}</b><br>lower bound: %{{x:.4~g}} {unit}<extra></extra>"
    traces.append(scatter("lower bound", bounds, labels, marker=mark, hovertemplate=hover))
    return figure(
        traces,
        axis(f"time of one nominal step ({unit})"),
        axis("", **rows(labels)),
        150 + 46 * len(steps),
        barmode="stack",
        bargap=0.35,
    )
