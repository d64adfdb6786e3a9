"""The section on softmaxes: its template with findings and charts."""

from __future__ import annotations

from pathlib import Path

from simfrontier.report import StudyView
from simfrontier.report.render import render
from simfrontier_extras.softmax.study_figures import softmax_bars
from simfrontier_extras.softmax.study_findings import StudySoftmaxes

_TEMPLATES = Path(__file__).parent / "templates"


def softmax_section(view: StudyView, found: StudySoftmaxes) -> str:
    """The section of a study whose plans name kernels of softmaxes, or methods of the loss."""
    largest_first = {f"{each.devices:,}": each for each in reversed(found.sizes)}
    return render(
        "section.html.j2",
        _TEMPLATES,
        found=found,
        largest_first=largest_first,
        figures={name: softmax_bars(each.plans) for name, each in largest_first.items()},
        plans=view.plans,
        marks=view.marks,
    )
