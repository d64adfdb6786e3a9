"""Comparison of predictions with published figures: ratios of plans, shares of the peak, and scaling efficiencies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from simfrontier.answers.study import PlanOutcome
from simfrontier.inputs.scenario import PublishedTable
from simfrontier.interfaces.report.headline import sampled_ratio, work_ratio
from simfrontier.interfaces.report.phrases import NOT_RUN, TOO_BIG
from simfrontier.interfaces.report.sensitivity import setting_of
from simfrontier.interfaces.report.view import RATE, StudyView, comparable, published_tflops, rate, result_row

Range = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFigure:
    """Published number of a plan and its prediction (None if there is none: `state` says why): the median of its
    samples, with the range of 90 % of them (`sampled`). `unknown`: range of the prediction over the variations of
    unknown settings. A share of peak performance is 0 to 1. Ratios and shares refer to TFLOPS as published. `rate`: for
    a ratio or a share, the plan's own rate in tokens per second and device; `first`: the size to which an efficiency is
    relative, None if unknown.
    """

    plan: str
    devices: int
    published: float
    predicted: float | None
    state: str
    sampled: Range | None = None
    unknown: Range | None = None
    rate: float | None = None
    first: int | None = None


def published_of(view: StudyView) -> dict[str, Any] | None:
    """Return the published figures of a study's scenario with their predictions; None if the scenario has no figures.
    `judged`: whether the figures were measured on the simulated machine. `ratios`: rates per device relative to the
    first published plan, all at one size. `varied`: the varied settings, without their units."""
    figures = view.scenario.file.published
    if figures is None:
        return None
    varied = () if view.sensitivity is None else view.sensitivity.varied
    return {
        "source": figures.source,
        "judged": comparable(view.scenario) is not None,
        "changed_settings": view.changed_settings,
        "ratios": _ratios(view, figures),
        "shares": [
            _share(view, plan, int(size), percentage / 100)
            for plan, sizes in figures.percent_of_peak.items()
            for size, percentage in sizes.items()
        ],
        "efficiencies": [_efficiency(view, figures, plan, value) for plan, value in figures.efficiency.items()],
        "peak_flops_per_s": view.scenario.at(view.largest).peak_flops_per_s,
        "precision": view.scenario.precision.model,
        "varied": list(dict.fromkeys(setting_of(one)[0] for one in varied)),
    }


def _state(outcome: PlanOutcome | None) -> str:
    """Return the reason why there is no prediction; empty if there is one."""
    return NOT_RUN if outcome is None else "" if outcome.row["fits"] else TOO_BIG


def _ratios(view: StudyView, figures: PublishedTable) -> list[PublishedFigure]:
    """Return the published ratios of plans with their predictions, at the size of the variations if there are any."""
    if not figures.ratios:
        return []
    varied, first, made = view.sensitivity, next(iter(figures.ratios)), []
    size = view.largest if varied is None else varied.devices
    outcomes = {o.plan: o for o in view.at(size)}
    of_default = {} if varied is None else dict(varied.default.tflops)  # plans that only the variations have
    tflops = of_default | {plan: published_tflops(o) if o.row["fits"] else math.nan for plan, o in outcomes.items()}
    for plan, published in figures.ratios.items():
        outcome = outcomes.get(plan)
        ratio = tflops.get(plan, math.nan) / tflops.get(first, math.nan)
        is_varied = outcome is None and plan in of_default
        made.append(
            PublishedFigure(
                plan=plan,
                devices=size,
                published=published,
                predicted=ratio if math.isfinite(ratio) else None,
                state=("" if math.isfinite(tflops[plan]) else TOO_BIG) if is_varied else _state(outcome),
                sampled=None if plan == first else _sampled_ratio(view, outcome, outcomes.get(first)),
                unknown=None if plan == first else ratio_over_unknown(view, plan, first),
                rate=rate(outcome) if outcome is not None and outcome.row["fits"] else None,
            )
        )
    return made


def _sampled_ratio(view: StudyView, outcome: PlanOutcome | None, first: PlanOutcome | None) -> Range | None:
    """Return the range of 90 % of the paired samples of the ratio of two plans' TFLOPS, as published; None without
    samples."""
    if outcome is None or first is None or outcome.samples_s is None or first.samples_s is None:
        return None
    per_token = (published_tflops(outcome) / rate(outcome)) / (published_tflops(first) / rate(first))
    band = sampled_ratio(outcome, first, work_ratio(view, outcome, first) * per_token)
    return band.low, band.high


def _share(view: StudyView, plan: str, size: int, published: float) -> PublishedFigure:
    outcome = next((o for o in view.at(size) if o.plan == plan), None)
    if outcome is None or not outcome.row["fits"]:
        return PublishedFigure(plan=plan, devices=size, published=published, predicted=None, state=_state(outcome))
    row = result_row(outcome)
    predicted = published_tflops(outcome) / (view.scenario.at(size).peak_flops_per_s / 1e12)
    low, high = (row[f"{RATE}_{end}"] for end in ("p05", "p95"))
    return PublishedFigure(
        plan=plan,
        devices=size,
        published=published,
        predicted=predicted,
        state="",
        sampled=None if low is None else (predicted * low / row[RATE], predicted * high / row[RATE]),
        unknown=share_over_unknown(view, plan, size),
        rate=row[RATE],
    )


def share_over_unknown(view: StudyView, plan: str, size: int) -> Range | None:
    """Return the lowest and the highest share of peak performance of a plan at a size, over the defaults and every
    variation with which the plan fits; None if no setting is varied."""
    varied = view.sensitivity
    at_size = next((each for each in (varied, *varied.smaller) if each.devices == size), None) if varied else None
    if at_size is None or plan not in at_size.plans:
        return None
    every = (at_size.default, *at_size.varied)
    return _ends([one.tflops[plan] / (one.peak_flops_per_s / 1e12) for one in every])


def ratio_over_unknown(view: StudyView, plan: str, first: str) -> Range | None:
    """Return the lowest and the highest rate of a plan relative to the first plan, over the same variations as
    `share_over_unknown`."""
    varied = view.sensitivity
    if varied is None or not {plan, first} <= set(varied.plans):
        return None
    return _ends([one.tflops[plan] / one.tflops[first] for one in (varied.default, *varied.varied)])


def _ends(values: list[float]) -> Range | None:
    known = [value for value in values if math.isfinite(value)]
    return (min(known), max(known)) if known else None


def _efficiency(view: StudyView, figures: PublishedTable, plan: str, published: float) -> PublishedFigure:
    rates = {o.devices: published_tflops(o) if o.row["fits"] else math.nan for o in view.study.of(plan)}
    fitting = [size for size, own in rates.items() if math.isfinite(own)]
    first = figures.efficiency_base_devices or min(fitting, default=0)
    efficiency, state = rates.get(view.largest, math.nan) / rates.get(first, math.nan), ""
    if first == view.largest or not math.isfinite(efficiency):
        was_run = view.largest in rates and first in rates and first != view.largest
        state = TOO_BIG if was_run or (rates and not fitting) else NOT_RUN
    return PublishedFigure(
        plan=plan,
        devices=view.largest,
        published=published,
        predicted=None if state else efficiency,
        state=state,
        first=first or None,
    )
