"""A study in a few lines: the sentence that answers, and the rates by plan and size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from simfrontier.answers.study import PlanOutcome
from simfrontier.interfaces.report import parts, scaling, timeline
from simfrontier.interfaces.report.drawing import scaling_drawing
from simfrontier.interfaces.report.headline import Headline
from simfrontier.interfaces.report.phrases import NOTHING, number
from simfrontier.interfaces.report.render import render, said
from simfrontier.interfaces.report.theme import Figure
from simfrontier.interfaces.report.view import RATE, StudyView

Drawn = TypeVar("Drawn")
MOST_PLANS = 15  # that a few lines show


def verdict(found: Headline) -> str:
    """Return one sentence: the fastest plan at the largest size, its lead, and whether that is sure."""
    return said("run", "verdict", found)[0]


def assumed(setup: Mapping[str, Any]) -> str:
    """Batch, stacks and library of a study: what it assumes where its scenario does not say it."""
    return said("run", "assumed", setup)[0]


def rate_cells(view: StudyView) -> dict[str, list[str]]:
    """The rate of each plan at each size as text; a dash where it does not fit."""
    return {
        plan: [NOTHING if row[RATE] is None else number(row[RATE]) for row in rows] for plan, rows in view.rows.items()
    }


def summary_text(found: Headline, view: StudyView) -> str:
    """The rates of all plans at all sizes, at most so many, and the verdict."""
    rows = rate_cells(view)
    width = max(map(len, rows), default=0)
    head = " ".join([" " * width, *(f"{size:>7,}" for size in view.sizes)])
    lines = [" ".join([f"{plan:<{width}}", *(f"{cell:>7}" for cell in cells)]) for plan, cells in rows.items()]
    more = len(lines) - MOST_PLANS
    shown = lines if more <= 0 else [*lines[:MOST_PLANS], f"… and {more} more: .frame() has all"]
    title = f"{view.scenario.file.title}: {view.rate_unit}"
    return "\n".join([title, head, *shown, verdict(found).replace("\u00a0", " ")])


def summary_html(found: Headline, view: StudyView) -> str:
    """The same with a chart, as HTML for a cell of a notebook; it needs neither script nor network."""
    return render(
        "summary.html.j2",
        title=view.scenario.file.title,
        verdict=verdict(found),
        unit=view.rate_unit,
        sizes=view.sizes,
        rates=rate_cells(view),
        marks=view.marks,
        drawing=scaling_drawing(view.rows, view.marks, view.device, view.rate_unit),
    )


def chart(view: StudyView, kind: str, outcome: PlanOutcome) -> Figure:
    """A chart of the page by its kind (`api.Comparison.figure`); that of one plan shows `outcome`."""
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
