"""The chart of rates against sizes as SVG, for where no script runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2

from simfrontier.records import dataclass
from simfrontier.report.findings.scaling import ScaledPlan
from simfrontier.report.render import render
from simfrontier.report.theme import PlanMark, nice_ticks

_WIDTH, _HEIGHT = 640.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 130.0, 12.0, 40.0
_LABEL_HEIGHT = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPlan:
    """A plan's line, the outline of its band (empty without samples), and its name at the end of the line."""

    plan: str
    colour: str
    line: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float], ...]
    label_y: float


def scaling_drawing(
    scaling: Mapping[str, Sequence[ScaledPlan]], marks: Mapping[str, PlanMark], device: str, unit: str, paper: str = ""
) -> str:
    """Rates (in `unit`) against devices (logarithmic), a line per plan through the medians of its samples within their
    band; empty where nothing fits. Colours of text and axes are those of what is around it, or black on `paper`."""
    fitting = {plan: [one for one in outcomes if not one.misfit] for plan, outcomes in scaling.items()}
    fitting = {plan: outcomes for plan, outcomes in fitting.items() if outcomes}
    if not fitting:
        return ""
    sizes = sorted({one.devices for outcomes in fitting.values() for one in outcomes})
    highest = max(
        max(one.sampled_rate.high if one.sampled_rate else 0.0, one.rate or 0.0)
        for outcomes in fitting.values()
        for one in outcomes
    )
    ticks = nice_ticks(highest)
    span = log2(sizes[-1] / sizes[0]) or 1.0

    def place(devices: int, value: float) -> tuple[float, float]:
        along = log2(devices / sizes[0]) / span if len(sizes) > 1 else 0.5
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * along
        y = _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1.0 - value / ticks[-1])
        return round(x, 1), round(y, 1)

    lines = {plan: tuple(place(one.devices, one.rate or 0.0) for one in outcomes) for plan, outcomes in fitting.items()}
    labels = _apart({plan: line[-1][1] for plan, line in lines.items()})
    drawn = []
    for plan, outcomes in fitting.items():
        known = [(one.devices, one.sampled_rate) for one in outcomes if one.sampled_rate]
        low = [place(devices, band.low) for devices, band in known]
        high = [place(devices, band.high) for devices, band in known]
        drawn.append(
            DrawnPlan(
                plan=plan,
                colour=marks[plan].colour,
                line=lines[plan],
                band=(*low, *reversed(high)),
                label_y=labels[plan],
            )
        )
    return render(
        "drawings/scaling.svg.j2",
        plans=drawn,
        sizes=[(size, place(size, 0.0)) for size in sizes],
        ticks=[(tick, place(sizes[0], tick)[1]) for tick in ticks],
        device=device,
        unit=unit,
        paper=paper,
        width=_WIDTH,
        height=_HEIGHT,
        left=_LEFT,
        right=_WIDTH - _RIGHT,
    )


def _apart(heights: Mapping[str, float]) -> dict[str, float]:
    """Heights of labels near those wanted, none over another."""
    out: dict[str, float] = {}
    last = -_LABEL_HEIGHT
    for plan in sorted(heights, key=lambda plan: heights[plan]):
        last = out[plan] = max(heights[plan], last + _LABEL_HEIGHT)
    over = max(0.0, last - (_HEIGHT - _BOTTOM))
    return {plan: height - over for plan, height in out.items()}
