"""The chart of rates against sizes as SVG, for where no script runs."""

from __future__ import annotations

from collections.abc import Mapping
from math import log2

from simfrontier.interfaces.report.render import render
from simfrontier.interfaces.report.theme import PlanMark, nice_ticks
from simfrontier.interfaces.report.view import RATE, Rows

_WIDTH, _HEIGHT = 640.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 130.0, 12.0, 40.0
_LABEL_HEIGHT = 15.0


def scaling_drawing(rows: Rows, marks: Mapping[str, PlanMark], device: str, unit: str, paper: str = "") -> str:
    """Rates (in `unit`) against devices (logarithmic), a line per plan through the medians of its samples within their
    band; empty where nothing fits. Colours of text and axes are those of what is around it, or black on `paper`."""
    known = {plan: [row for row in own if row["fits"]] for plan, own in rows.items()}
    fitting = {plan: own for plan, own in known.items() if own}
    if not fitting:
        return ""
    every = [row for own in fitting.values() for row in own]
    sizes = sorted({row["devices"] for row in every})
    ticks = nice_ticks(max(row.get(f"{RATE}_p95") or row[RATE] for row in every))
    span = log2(sizes[-1] / sizes[0]) or 1.0

    def place(devices: int, value: float) -> tuple[float, float]:
        along = log2(devices / sizes[0]) / span if len(sizes) > 1 else 0.5
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * along
        y = _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1.0 - value / ticks[-1])
        return round(x, 1), round(y, 1)

    def line(plan: str, column: str) -> list[tuple[float, float]]:
        return [place(row["devices"], row[column]) for row in fitting[plan] if row.get(column)]

    labels = _apart({plan: line(plan, RATE)[-1][1] for plan in fitting})
    return render(
        "drawings/scaling.svg.j2",
        plans=[
            {
                "plan": plan,
                "colour": marks[plan].colour,
                "line": line(plan, RATE),
                "band": [*line(plan, f"{RATE}_p05"), *reversed(line(plan, f"{RATE}_p95"))],
                "label_y": labels[plan],
            }
            for plan in fitting
        ],
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
