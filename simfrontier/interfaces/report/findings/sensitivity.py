"""Sensitivity of the comparison of plans to unknown settings, one at a time and the same for all plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simfrontier.base.units import unit_of
from simfrontier.interfaces.report.phrases import exactly
from simfrontier.interfaces.report.view import StudyView, comparable, finite

if TYPE_CHECKING:
    from simfrontier.answers.experiments import Sensitivity, VariedRates


def variations_of(view: StudyView) -> dict[str, Any] | None:
    """The variations of a study at each size, the largest first, and the values that published ratios would need; None
    where nothing was varied. `compared`: the plans whose ratios to the first of `plans` are compared, or the only
    plan."""
    result = view.sensitivity
    if result is None:
        return None
    return {
        "fidelity": result.fidelity,
        "plans": result.plans,
        "compared": result.plans[1:] or result.plans,
        "sizes": [_at_size(view, each) for each in (result, *sorted(result.smaller, key=lambda each: -each.devices))],
        "required": [each.sentence for each in result.required],
    }


def setting_of(one: VariedRates) -> tuple[str, str]:
    """The varied setting and its value in the unit of the key, e.g. 342 µs for 0.000342."""
    unit = unit_of(one.key)
    try:
        return one.label.removesuffix(f", {unit}"), exactly(float(one.value), unit) if unit else one.value
    except ValueError:  # a value that is a word
        return one.label, one.value


def _at_size(view: StudyView, result: Sensitivity) -> dict[str, Any]:
    """The variations at one size, those at the defaults apart. `published`: what is compared, as published;
    `strongest` names the setting that moves it most."""
    return {
        "devices": result.devices,
        "default": _varied(result.default, result.plans),
        "varied": [_varied(one, result.plans) for one in result.varied],
        "published": _published(view, result),
        "strongest": result.strongest,
    }


def _varied(one: VariedRates, plans: tuple[str, ...]) -> dict[str, Any]:
    """One setting at one value (both empty: the defaults). By plan: `rates`, tokens per second and device; `tflops`,
    per device as they are published; `compared`: its rate over the first plan's, or of the only plan its rate. None
    where a plan does not fit."""
    setting, value = setting_of(one) if one.key else ("", "")
    first = 1.0 if len(plans) == 1 else one.rates[plans[0]]
    return {
        "setting": setting,
        "value": value,
        "rates": {plan: finite(one.rates[plan]) for plan in plans},
        "tflops": {plan: finite(one.tflops[plan]) for plan in plans},
        "compared": {plan: finite(one.rates[plan] / first) for plan in plans},
    }


def _published(view: StudyView, result: Sensitivity) -> dict[str, float]:
    """The published values of what is compared, by plan: of the only plan the rate that its share of the peak is."""
    figures = comparable(view.scenario)
    if figures is None:
        return {}
    if len(result.plans) > 1:
        return {plan: figures.ratios[plan] for plan in result.plans if plan in figures.ratios}
    (plan,) = result.plans
    percentage = figures.percent_of_peak.get(plan, {}).get(str(result.devices))
    if percentage is None:
        return {}
    share = result.default.tflops[plan] * 1e12 / result.default.peak_flops_per_s
    return {plan: result.default.rates[plan] * percentage / 100 / share}
