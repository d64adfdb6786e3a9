"""Findings of a study on the values that all ranks gather for later steps: Mugs' queues, memories and centre."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simfrontier.answers.step import Gathers
from simfrontier.interfaces.report.view import StudyView, step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanGathers:
    """The gathers of a plan in a step; `held_s`: the time for which a rank's work waits for them."""

    plan: str
    step_s: float
    held_s: float
    gathers: Gathers


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyGathers:
    """The plans that fit at the largest size, and `waits_s`: by plan and size how long a rank's work waits."""

    device_word: str
    devices: int
    plans: tuple[PlanGathers, ...]
    waits_s: Mapping[str, Mapping[int, float]]


def study_gathers(view: StudyView) -> StudyGathers | None:
    """The findings, or None where no plan that fits gathers anything of the sort."""
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
