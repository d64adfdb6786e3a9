"""The section on softmaxes of the page of a study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simfrontier.report import Section

if TYPE_CHECKING:
    from simfrontier.report import StudyView
    from simfrontier_extras.softmax.study_findings import StudySoftmaxes


def _found(view: StudyView) -> StudySoftmaxes | None:
    if not view.scenario.names_softmaxes:
        return None
    from simfrontier_extras.softmax.study_findings import study_softmaxes

    return study_softmaxes(view)


def _html(view: StudyView, found: StudySoftmaxes) -> str:
    from simfrontier_extras.softmax.study_section import softmax_section

    return softmax_section(view, found)


ADDS = (Section(name="softmax", title="Softmax", after="compression", found=_found, html=_html),)
