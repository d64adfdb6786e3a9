"""The section on queues of the page of a study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simfrontier.report import Section

if TYPE_CHECKING:
    from simfrontier.report import StudyView
    from simfrontier_extras.mugs.findings import StudyGathers


def _found(view: StudyView) -> StudyGathers | None:
    if not any(shape.gathers_statistics for shape in view.shapes.values()):
        return None
    from simfrontier_extras.mugs.findings import study_gathers

    return study_gathers(view)


def _html(view: StudyView, found: StudyGathers) -> str:
    from simfrontier_extras.mugs.page import queues_section

    return queues_section(view, found)


ADDS = (Section(name="gathers", title="Queues", after="compression", found=_found, html=_html),)
