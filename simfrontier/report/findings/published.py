"""The prediction beside published figures: ratios of plans, shares of the peak, and scaling efficiencies."""

from __future__ import annotations

import math

from simfrontier.records import dataclass
from simfrontier.report.findings.samples import Sampled, sampled_rate, sampled_ratio, work_ratio
from simfrontier.report.findings.sensitivity import setting_of
from simfrontier.report.phrases import NOT_RUN, TOO_BIG
from simfrontier.report.view import StudyView, comparable, published_tflops, rate, rate_among
from simfrontier.scenario import PublishedTable

Range = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFigure:
    """A published number of one plan beside its prediction (None where there is none: `state`): the median of its
    samples, with their 90 % interval (`sampled`). `unknown`: its ends over the variations of what is unknown. A share
    of the peak is 0 to 1. Ratios and shares are those of TFLOPS as they are published. `rate`: of a ratio or a share,
    that of the plan itself in tokens per second and device; `first`: the size that an efficiency is relative to, None
    where nothing says."""

    plan: str
    devices: int
    published: float
    predicted: float | None
    state: str
    sampled: Range | None = None
    unknown: Range | None = None
    rate: float | None = None
    first: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """`judged`: the figures are of the machine that is simulated. `ratios`: of rates per device to that of the first of
    them, all at one size. `varied`: what is unknown and varied."""

    source: str
    judged: bool
    changed_settings: tuple[str, ...]
    ratios: tuple[PublishedFigure, ...]
    shares: tuple[PublishedFigure, ...]
    efficiencies: tuple[PublishedFigure, ...]
    peak_flops_per_s: float
    precision: str
    varied: tuple[str, ...]


def published_of(view: StudyView) -> Published | None:
    """The prediction beside the figures of a study's scenario; None where it has none."""
    figures = view.scenario.file.published
    if figures is None:
        return None
    return Published(
        source=figures.source,
        judged=comparable(view.scenario) is not None,
        changed_settings=view.changed_settings,
        ratios=_ratios(view, figures),
        shares=tuple(
            _share(view, plan, int(size), percentage / 100)
            for plan, sizes in figures.percent_of_peak.items()
            for size, percentage in sizes.items()
        ),
        efficiencies=tuple(_efficiency(view, figures, plan, value) for plan, value in figures.efficiency.items()),
        peak_flops_per_s=view.scenario.at(view.largest).peak_flops_per_s,
        precision=view.scenario.precision.model,
        varied=_varied(view),
    )


def _ratios(view: StudyView, figures: PublishedTable) -> tuple[PublishedFigure, ...]:
    """At the size of the variations, where there are any."""
    if not figures.ratios:
        return ()
    varied, first, made = view.sensitivity, next(iter(figures.ratios)), []
    size = view.largest if varied is None else varied.devices
    fitting = {o.plan: o for o in view.at(size) if o.row["fits"]}
    tflops = {o.plan: math.nan for o in view.at(size)} | ({} if varied is None else dict(varied.default.tflops))
    tflops |= {plan: published_tflops(o) for plan, o in fitting.items()}
    bands = ratio_bands(view, size, first)
    for plan, published in figures.ratios.items():
        _, state = rate_among(tflops, plan)
        sampled = bands.get(plan)
        ratio = tflops.get(plan, math.nan) / tflops.get(first, math.nan)
        made.append(
            PublishedFigure(
                plan=plan,
                devices=size,
                published=published,
                predicted=ratio if math.isfinite(ratio) else None,
                state=state,
                sampled=None if sampled is None else (sampled.low, sampled.high),
                unknown=None if plan == first else ratio_over_unknown(view, plan, first),
                rate=rate(fitting[plan]) if plan in fitting else None,
            )
        )
    return tuple(made)


def ratio_bands(view: StudyView, size: int, first: str) -> dict[str, Sampled]:
    """The paired samples of each plan's rate over the first plan's; plans without samples are not in it."""
    sampled = {o.plan: o for o in view.at(size) if o.samples_s is not None}
    if first not in sampled:
        return {}
    base = sampled[first]
    per_token = {plan: published_tflops(o) / rate(o) for plan, o in sampled.items()}  # recomputed ones count
    return {
        plan: sampled_ratio(o, base, work_ratio(view, o, base) * per_token[plan] / per_token[first])
        for plan, o in sampled.items()
        if plan != first
    }


def _share(view: StudyView, plan: str, size: int, published: float) -> PublishedFigure:
    outcome = next((o for o in view.at(size) if o.plan == plan), None)
    if outcome is None or not outcome.row["fits"]:
        state = NOT_RUN if outcome is None else TOO_BIG
        return PublishedFigure(plan=plan, devices=size, published=published, predicted=None, state=state)
    peak = view.scenario.at(size).peak_flops_per_s / 1e12
    sampled = sampled_rate(outcome, published_tflops)
    return PublishedFigure(
        plan=plan,
        devices=size,
        published=published,
        predicted=published_tflops(outcome) / peak,
        state="",
        sampled=None if sampled is None else (sampled.low / peak, sampled.high / peak),
        unknown=share_over_unknown(view, plan, size),
        rate=rate(outcome),
    )


def share_over_unknown(view: StudyView, plan: str, size: int) -> Range | None:
    """The lowest and the highest share of the peak of a plan at a size, at the defaults and under every variation with
    which it fits; None where nothing is varied."""
    varied = view.sensitivity
    at_size = next((each for each in (varied, *varied.smaller) if each.devices == size), None) if varied else None
    if at_size is None or plan not in at_size.plans:
        return None
    every = (at_size.default, *at_size.varied)
    return _ends([one.tflops[plan] / (one.peak_flops_per_s / 1e12) for one in every])


def ratio_over_unknown(view: StudyView, plan: str, first: str) -> Range | None:
    """The same for a plan's rate over the first plan's."""
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


def _varied(view: StudyView) -> tuple[str, ...]:
    """Names of the settings that are varied, without their units."""
    if view.sensitivity is None:
        return ()
    return tuple(dict.fromkeys(setting_of(one)[0] for one in view.sensitivity.varied))
