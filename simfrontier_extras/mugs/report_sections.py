"""The section on queues of the page of a study: the values that all ranks gather for later steps (queues, memories,
centre)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape as text
from pathlib import Path
from typing import Final

from simfrontier.answers.step import Gathers
from simfrontier.interfaces.report.render import render
from simfrontier.interfaces.report.results import Section
from simfrontier.interfaces.report.theme import Figure, axis, figure, scatter
from simfrontier.interfaces.report.view import StudyView, step_s

NAMES: Final[Mapping[str, str]] = {
    "teacher/instance.key.0": "keys of the instance head, first view",
    "teacher/instance.key.1": "keys of the instance head, second view",
    "teacher/group.key.0": "keys of the local-group head, first view",
    "teacher/group.key.1": "keys of the local-group head, second view",
    "cluster.sum": "sum for the centre of the group head",
    "student/row": "rows for the student’s memory",
    "flags": "flags of those rows",
    "teacher/row": "rows for the teacher’s memory",
}
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanGathers:
    """The gathers of a plan in a step; `held_s`: the time in seconds for which a rank's work waits for them."""

    plan: str
    step_s: float
    held_s: float
    gathers: Gathers


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyGathers:
    """The plans that fit at the largest size; `waits_s`: by plan and size, the seconds that a rank's work waits for the
    gathers."""

    device_word: str
    devices: int
    plans: tuple[PlanGathers, ...]
    waits_s: Mapping[str, Mapping[int, float]]


def study_gathers(view: StudyView) -> StudyGathers | None:
    """Return the findings, or None if no plan that fits gathers values for later steps."""
    plans = tuple(
        PlanGathers(plan=o.plan, step_s=step_s(o), held_s=o.gathers.held_s, gathers=o.gathers)
        for o in view.drawn
        if o.gathers is not None and o.row["fits"]
    )
    if not plans:
        return None
    waits_s = {
        plan: {o.devices: o.gathers.held_s for o in view.study.of(plan) if o.gathers is not None and o.row["fits"]}
        for plan in view.plans
    }
    return StudyGathers(device_word=view.device, devices=view.largest, plans=plans, waits_s=waits_s)


def found_gathers(view: StudyView) -> StudyGathers | None:
    """Return the findings on a study whose model gathers values for later steps."""
    return study_gathers(view) if any(shape.gathers_statistics for shape in view.shapes.values()) else None


def queues_section(view: StudyView, found: StudyGathers) -> str:
    """Return the HTML of the section on values gathered for later steps."""
    return render("section.html.j2", _TEMPLATES, found=found, figure=waits(view, found), names=NAMES, marks=view.marks)


def waits(view: StudyView, found: StudyGathers) -> Figure:
    """Plot for each plan the time that a rank's work waits for the gathers, against the number of devices."""
    traces = []
    for plan, by_size in found.waits_s.items():
        sizes, mark = sorted(by_size), view.marks[plan]
        look = {"color": mark.colour, "symbol": mark.symbol, "size": 9}
        hover = f"<b>{text(plan)}</b><br>%{{x:,}} {view.device}s: %{{y:.3~g}} ms<extra></extra>"
        own = {"line": {"color": mark.colour}, "marker": look, "hovertemplate": hover}
        traces.append(scatter(plan, sizes, [1e3 * by_size[size] for size in sizes], "lines+markers", **own))
    x = axis(f"{view.device}s", type="log", tickvals=list(view.sizes), ticktext=[f"{size:,}" for size in view.sizes])
    return figure(traces, x, axis("waited for per step (ms)", rangemode="tozero"), 320)


ADDS = (Section(name="gathers", title="Queues", after="compression", found=found_gathers, html=queues_section),)
