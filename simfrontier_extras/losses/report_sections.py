"""The section on losses of a study's page: the speed gain and the final loss of each compression policy."""

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
    """A plan that compresses its messages; `message_type`: element type of the uncompressed messages.

    `gain`: rate relative to the plan that sends the same messages uncompressed, minus 1, on `gain_devices` devices;
    `published_gain`: the published value. `distance`: difference of the policy's final loss from the baseline's; None
    if its losses are unknown, or if it `diverged`. `stays`: whether the final loss is within the baseline's band.
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
    """Losses that a scenario refers to, combined with the speed of its plans.

    `last`: number of steps whose mean is the final loss; `window`: number of steps averaged for a point of a smoothed
    curve; `band`: band of the baseline's final losses over its `num_seeds` seeds, None with one seed. `fastest`: the
    fastest of the plans with tensor and pipeline parallelism that fit; `fastest_in_band`: the fastest of those that
    compress nothing or stay in the band.
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
    """Return the findings on losses, or None if no plan of the study compresses its messages."""
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
    """Return the findings on losses of a study whose scenario refers to loss curves."""
    known = losses_of(view.scenario)
    return None if known is None else study_losses(view, known)


def losses_section(view: StudyView, found: StudyLosses) -> str:
    """Return the HTML of the section."""
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
    """Return the colours of policies: the colour of the first plan with the policy, or an unused colour if no plan has
    it."""
    spare = marks([*view.plans, *losses.policies])
    of = {policy_of(one.policy): view.marks[one.plan] for one in reversed(found.plans)}
    return {one: of.get(policy_of(one), spare[one]).colour for one in losses.policies}


ADDS = (Section(name="losses", title="Losses", after="compression", found=found_losses, html=losses_section),)
