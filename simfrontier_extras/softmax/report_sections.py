"""The section on softmaxes of the page of a study."""

from __future__ import annotations

from pathlib import Path

from simfrontier.interfaces.report.render import render
from simfrontier.interfaces.report.results import Section
from simfrontier.interfaces.report.view import StudyView
from simfrontier_extras.softmax.study_findings import StudySoftmaxes, softmax_bars, study_softmaxes

_TEMPLATES = Path(__file__).parent / "templates"


def found_softmaxes(view: StudyView) -> StudySoftmaxes | None:
    """The findings on a study whose plans name kernels of softmaxes, or methods of the loss."""
    return study_softmaxes(view) if view.scenario.names_softmaxes else None


def softmax_section(view: StudyView, found: StudySoftmaxes) -> str:
    """The HTML of the section."""
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


ADDS = (Section(name="softmax", title="Softmax", after="compression", found=found_softmaxes, html=softmax_section),)
