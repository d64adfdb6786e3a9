"""The section on losses of the page of a study: the gain of each policy in speed, and the end of its training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from simfrontier.interfaces.report.compression import CompressedPlan, compressed_plans
from simfrontier.interfaces.report.render import render
from simfrontier.interfaces.report.results import Section
from simfrontier.interfaces.report.theme import marks
from simfrontier.interfaces.report.view import StudyView, rate
from simfrontier_extras.losses.curves import NUM_SD, LossCurves, policy_of
from simfrontier_extras.losses.figures import GainLossPoint, curves, trade_off
from simfrontier_extras.losses.scenario_keys import losses_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLoss:
    """A plan that compresses its messages, of the type `message_type` where they are not compressed.

    `gain`: its rate over that of the plan that sends the same messages uncompressed, less 1, at `gain_devices`
    devices; `published_gain`: the same, published. `distance`: of its policy's final loss from the baseline's; None
    where no losses are known of it, or it `diverged`. `stays`: whether it is within the baseline's band.
    """

    plan: str
    policy: str
    message_type: str
    gain: float | None
    gain_devices: int | None
    published_gain: float | None
    distance: float | None
    diverged: bool
    stays: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fastest:
    """The fastest of some plans at the largest size, with its rate in tokens per second and device."""

    plan: str
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyLosses:
    """Losses that a scenario names, next to the speed of its plans.

    `last`: number of steps whose mean is a final loss; `window`: number of those of a point of a smoothed curve;
    `band`: that of the baseline's final losses over its `num_seeds` seeds, None with one seed. `fastest`: of the plans
    with tensor and pipeline parallelism that fit; `fastest_in_band`: of those that compress nothing or stay in the
    band.
    """

    device_word: str
    rate_unit: str
    devices: int
    source: str
    baseline: str
    last: int
    window: int
    num_seeds: int
    band: tuple[float, float] | None
    half_band: float | None
    plans: tuple[PlanLoss, ...]
    fastest: Fastest | None
    fastest_in_band: Fastest | None


def study_losses(view: StudyView, losses: LossCurves) -> StudyLosses | None:
    """Return the findings, or None where no plan of the study compresses its messages."""
    rows = compressed_plans(view)
    plans = tuple(_plan_loss(row, losses) for row in rows if not row.is_plain)
    if not plans:
        return None
    kept = {row.plan for row in rows if row.is_plain} | {one.plan for one in plans if one.stays}
    return StudyLosses(
        device_word=view.device,
        rate_unit=view.rate_unit,
        devices=view.largest,
        source=losses.source,
        baseline=losses.baseline,
        last=losses.last,
        window=losses.window,
        num_seeds=len(losses.finals(losses.baseline)),
        band=losses.band,
        half_band=losses.half_band,
        plans=plans,
        fastest=_fastest(view, {row.plan for row in rows}),
        fastest_in_band=None if losses.half_band is None else _fastest(view, kept),
    )


def _plan_loss(row: CompressedPlan, losses: LossCurves) -> PlanLoss:
    distance = losses.distance(row.policy)
    diverged = distance is not None and not math.isfinite(distance)
    return PlanLoss(
        plan=row.plan,
        policy=row.policy,
        message_type=row.message_type,
        gain=row.gain,
        gain_devices=row.gain_devices,
        published_gain=row.published_gain,
        distance=None if diverged else distance,
        diverged=diverged,
        stays=losses.stays(row.policy),
    )


def _fastest(view: StudyView, plans: set[str]) -> Fastest | None:
    best = next((outcome for outcome in view.ranked if outcome.plan in plans), None)
    return None if best is None else Fastest(plan=best.plan, rate=rate(best))


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
    """Return the colours of policies: that of the first plan with the policy, an unused one for policies of no plan."""
    spare = marks([*view.plans, *losses.policies])
    of = {policy_of(one.policy): view.marks[one.plan] for one in reversed(found.plans)}
    return {one: of.get(policy_of(one), spare[one]).colour for one in losses.policies}


ADDS = (Section(name="losses", title="Losses", after="compression", found=found_losses, html=losses_section),)
