"""The section on queues of the page of a study."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape as text
from pathlib import Path
from typing import Final

from simfrontier.interfaces.report.render import render
from simfrontier.interfaces.report.results import Section
from simfrontier.interfaces.report.theme import Figure, axis, figure, scatter
from simfrontier.interfaces.report.view import StudyView
from simfrontier_extras.mugs.findings import StudyGathers, study_gathers

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


def found_gathers(view: StudyView) -> StudyGathers | None:
    """The findings on a study whose model gathers values for later steps."""
    return study_gathers(view) if any(shape.gathers_statistics for shape in view.shapes.values()) else None


def queues_section(view: StudyView, found: StudyGathers) -> str:
    """The section of a study whose model gathers values for later steps."""
    return render("section.html.j2", _TEMPLATES, found=found, figure=waits(view, found), names=NAMES, marks=view.marks)


def waits(view: StudyView, found: StudyGathers) -> Figure:
    """Per plan, the time that a rank's work waits for the calls, over the number of devices."""
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
