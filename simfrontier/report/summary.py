"""A study in a few lines: the sentence that answers, and the rates by plan and size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from simfrontier.report.findings.headline import Headline
from simfrontier.report.findings.setup import Setup
from simfrontier.report.findings.study import StudyFindings
from simfrontier.report.phrases import NOTHING, number
from simfrontier.report.render import render, said
from simfrontier.report.scaling import scaling_drawing
from simfrontier.report.theme import Figure
from simfrontier.report.view import StudyView
from simfrontier.study import PlanOutcome

Drawn = TypeVar("Drawn")
MOST_PLANS = 15  # that a few lines show


def verdict(found: Headline) -> str:
    """Which plan is the fastest at the largest size, by how much, and whether that is sure: one sentence."""
    return said("run", "verdict", found)[0]


def assumed(found: Setup) -> str:
    """Batch, stacks and library of a study: what it assumes where its scenario does not say it."""
    return said("run", "assumed", found)[0]


def summary_text(found: StudyFindings, view: StudyView) -> str:
    """The rates of all plans at all sizes, at most so many, and the verdict."""
    rows = _rates(found)
    width = max(map(len, rows), default=0)
    title = f"{view.scenario.file.title}: {found.headline.rate_unit}"
    head = " ".join([" " * width, *(f"{size:>7,}" for size in found.setup.sizes)])
    lines = [" ".join([f"{plan:<{width}}", *(f"{cell:>7}" for cell in cells)]) for plan, cells in rows.items()]
    more = len(lines) - MOST_PLANS
    shown = lines if more <= 0 else [*lines[:MOST_PLANS], f"… and {more} more: .frame() has all"]
    return "\n".join([title, head, *shown, verdict(found.headline).replace("\u00a0", " ")])


def summary_html(found: StudyFindings, view: StudyView) -> str:
    """The same with a chart, as HTML for a cell of a notebook; it needs neither script nor network."""
    return render(
        "summary.html.j2",
        title=view.scenario.file.title,
        verdict=verdict(found.headline),
        unit=found.headline.rate_unit,
        sizes=found.setup.sizes,
        rates=_rates(found),
        marks=view.marks,
        drawing=scaling_drawing(found.scaling, view.marks, view.device, view.rate_unit),
    )


def _rates(found: StudyFindings) -> Mapping[str, list[str]]:
    """The rate of each plan at each size as text; a dash where it does not fit."""
    return {
        plan: [NOTHING if one.rate is None else number(one.rate) for one in outcomes]
        for plan, outcomes in found.scaling.items()
    }


def chart(found: StudyFindings, view: StudyView, kind: str, outcome: PlanOutcome) -> Figure:
    """A chart of the page by its kind (`api.Comparison.figure`); that of one plan shows `outcome`."""
    from simfrontier.report.figures import breakdown, memory, scaling, timeline, traffic

    made: dict[str, Callable[[], Figure]] = {
        "rate": lambda: scaling.rates(found.scaling, view.marks, view.device, view.rate_unit),
        "step_time": lambda: scaling.step_times(found.scaling, view.marks, view.device),
        "efficiency": lambda: scaling.efficiencies(found.scaling, view.marks, view.device),
        "breakdown": lambda: breakdown.step_bars(found.time.steps[view.largest]),
        "traffic": lambda: traffic.traffic_bars(found.traffic),
        "memory": lambda: memory.areas(_kept(outcome.memory), view.capacity_bytes(outcome)),
        "timeline": lambda: timeline.bars(_kept(outcome.trace)),
    }
    return made[kind]()


def _kept(drawn: Drawn | None) -> Drawn:
    assert drawn is not None, "an outcome at the largest size is drawn"
    return drawn
