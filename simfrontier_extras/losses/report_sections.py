"""The section on losses of the page of a study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simfrontier.report import Section

if TYPE_CHECKING:
    from simfrontier.report import StudyView
    from simfrontier_extras.losses.findings import StudyLosses


def _found(view: StudyView) -> StudyLosses | None:
    from simfrontier_extras.losses.scenario_keys import losses_of

    known = losses_of(view.scenario)
    if known is None:
        return None
    from simfrontier_extras.losses.findings import study_losses

    return study_losses(view, known)


def _html(view: StudyView, found: StudyLosses) -> str:
    from simfrontier_extras.losses.page import losses_section

    return losses_section(view, found)


ADDS = (Section(name="losses", title="Losses", after="compression", found=_found, html=_html),)
