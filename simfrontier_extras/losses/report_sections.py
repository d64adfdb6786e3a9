"""The section on losses of the page of a study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from simfrontier.interfaces.report.render import render
from simfrontier.interfaces.report.results import Section
from simfrontier.interfaces.report.theme import marks
from simfrontier.interfaces.report.view import StudyView
from simfrontier_extras.losses.curves import NUM_SD, LossCurves, policy_of
from simfrontier_extras.losses.figures import GainLossPoint, curves, trade_off
from simfrontier_extras.losses.findings import StudyLosses, study_losses
from simfrontier_extras.losses.scenario_keys import losses_of

_TEMPLATES = Path(__file__).parent / "templates"


def found_losses(view: StudyView) -> StudyLosses | None:
    """The findings on a study whose scenario names losses."""
    known = losses_of(view.scenario)
    return None if known is None else study_losses(view, known)


def losses_section(view: StudyView, found: StudyLosses) -> str:
    """The HTML of the section."""
    losses = losses_of(view.scenario)
    assert losses is not None, "there are findings of them"
    points = [
        GainLossPoint(
            plan=one.plan, of=one.message_type, distance=one.distance, gain=one.gain, mark=view.marks[one.plan]
        )
        for one in found.plans
        if one.gain is not None and one.distance is not None
    ]
    published = {one.plan: one.published_gain for one in found.plans if one.published_gain is not None}
    drawn = {point.plan for point in points}
    return render(
        "section.html.j2",
        _TEMPLATES,
        found=found,
        trade_off=trade_off(points, published, found.half_band) if points else None,
        curves=curves(losses, _colours(view, found, losses)),
        not_drawn=[one.plan for one in found.plans if one.plan not in drawn],
        num_sd=NUM_SD,
        marks=view.marks,
    )


def _colours(view: StudyView, found: StudyLosses, losses: LossCurves) -> Mapping[str, str]:
    """Colours of policies: that of the first plan with it; of what no plan has, what is left."""
    spare = marks([*view.plans, *losses.policies])
    of = {policy_of(one.policy): view.marks[one.plan] for one in reversed(found.plans)}
    return {one: of.get(policy_of(one), spare[one]).colour for one in losses.policies}


ADDS = (Section(name="losses", title="Losses", after="compression", found=found_losses, html=losses_section),)
