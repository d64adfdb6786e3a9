"""Summary of a study in a few lines: one sentence with the result, and the rates by plan and size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log2
from typing import Any, TypeVar

from simfrontier.answers.study import PlanOutcome
from simfrontier.interfaces.report import parts, scaling, timeline
from simfrontier.interfaces.report.answer import answer_tables, rate_cells
from simfrontier.interfaces.report.headline import Headline
from simfrontier.interfaces.report.render import render, said
from simfrontier.interfaces.report.theme import Figure, PlanMark, nice_ticks
from simfrontier.interfaces.report.view import RATE, Rows, StudyView

Drawn = TypeVar("Drawn")
MOST_PLANS = 15  # that a few lines show
_WIDTH, _HEIGHT = 640.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 130.0, 12.0, 40.0
_LABEL_HEIGHT = 15.0


def verdict(found: Headline) -> str:
    """Return one sentence: the fastest plan at the largest size, its lead, and whether the lead is certain."""
    return said("run", "verdict", found)[0]


def assumed(setup: Mapping[str, Any]) -> str:
    """Return a sentence on the batch and the library of a study."""
    return said("run", "assumed", setup)[0]


def summary_text(found: Headline, view: StudyView) -> str:
    """Return the rates of the first MOST_PLANS plans at all sizes, and the verdict, as text."""
    rows = rate_cells(view)
    width = max(map(len, rows), default=0)
    head = " ".join([" " * width, *(f"{size:>7,}" for size in view.sizes)])
    lines = [" ".join([f"{plan:<{width}}", *(f"{cell:>7}" for cell in cells)]) for plan, cells in rows.items()]
    more = len(lines) - MOST_PLANS
    shown = lines if more <= 0 else [*lines[:MOST_PLANS], f"… and {more} more: .frame() has all"]
    title = f"{view.scenario.file.title}: {view.rate_unit}"
    return "\n".join([title, head, *shown, verdict(found).replace("\u00a0", " ")])


def summary_html(found: Headline, view: StudyView) -> str:
    """Return the answer and the verdict, for several sizes with a chart, as HTML for a notebook cell; it needs neither
    scripts nor network."""
    is_one = len(view.sizes) == 1
    return render(
        "summary.html.j2",
        title=view.scenario.file.title,
        verdict=verdict(found),
        tables=answer_tables(view),
        marks=view.marks,
        drawing="" if is_one else scaling_drawing(view.rows, view.marks, view.device, view.rate_unit),
    )


def chart(view: StudyView, kind: str, outcome: PlanOutcome) -> Figure:
    """Return a chart of the page by its kind (see `api.Comparison.figure`); a chart of a single plan shows
    `outcome`."""
    rows = view.rows_at(view.largest)
    made: dict[str, Callable[[], Figure]] = {
        "rate": lambda: scaling.rates(view),
        "step_time": lambda: scaling.step_times(view),
        "efficiency": lambda: scaling.efficiencies(view),
        "breakdown": lambda: parts.step_bars(rows),
        "traffic": lambda: parts.traffic_bars(rows, view.device),
        "memory": lambda: parts.areas(_kept(outcome.memory), view.capacity_bytes(outcome)),
        "timeline": lambda: timeline.bars(_kept(outcome.trace)),
    }
    return made[kind]()


def _kept(drawn: Drawn | None) -> Drawn:
    assert drawn is not None, "an outcome at the largest size is drawn"
    return drawn


def scaling_drawing(rows: Rows, marks: Mapping[str, PlanMark], device: str, unit: str, paper: str = "") -> str:
    """Return an SVG of rates (in `unit`) against the number of devices (logarithmic), a line per plan through the
    medians of its samples with the 90 % band; empty if no plan fits. Text and axes take the colour of the surrounding
    page, or are black on a background of colour `paper`."""
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
    """Return heights of labels close to the desired ones, but without overlap between labels."""
    out: dict[str, float] = {}
    last = -_LABEL_HEIGHT
    for plan in sorted(heights, key=lambda plan: heights[plan]):
        last = out[plan] = max(heights[plan], last + _LABEL_HEIGHT)
    over = max(0.0, last - (_HEIGHT - _BOTTOM))
    return {plan: height - over for plan, height in out.items()}
