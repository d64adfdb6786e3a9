"""Sensitivity of the comparison of plans to unknown settings: one setting is changed at a time, for all plans alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from textwrap import wrap
from typing import Any

from simfrontier.answers.experiments import Sensitivity, VariedRates
from simfrontier.base.units import unit_of
from simfrontier.interfaces.report.phrases import exactly
from simfrontier.interfaces.report.theme import ACROSS, Figure, PlanMark, PlotTrace, axis, figure, scatter, within
from simfrontier.interfaces.report.view import StudyView, comparable, finite

_WRAP = 26  # characters of a line beside the chart
_LINE = 16  # pixels that it takes
_DEFAULT = "nothing changed"
_PUBLISHED = "published"


def variations_of(view: StudyView) -> dict[str, Any] | None:
    """Return the variations of a study at each size, the largest first, and the values of settings that would reproduce
    published ratios; None if no setting was varied. `compared`: the plans whose ratios to the first of `plans` are
    shown, or the only plan."""
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
    """Return the name of the varied setting and its value in the unit of the key, e.g. 342 µs for 0.000342."""
    unit = unit_of(one.key)
    try:
        return one.label.removesuffix(f", {unit}"), exactly(float(one.value), unit) if unit else one.value
    except ValueError:  # a value that is a word
        return one.label, one.value


def _at_size(view: StudyView, result: Sensitivity) -> dict[str, Any]:
    """Return the variations at one size, with the defaults separately. `published`: the published values of the
    compared ratios; `strongest`: the setting that changes them most."""
    return {
        "devices": result.devices,
        "default": _varied(result.default, result.plans),
        "varied": [_varied(one, result.plans) for one in result.varied],
        "published": _published(view, result),
        "strongest": result.strongest,
    }


def _varied(one: VariedRates, plans: tuple[str, ...]) -> dict[str, Any]:
    """Return the results with one setting at one value (both empty for the defaults). By plan: `rates`, tokens per
    second and device; `tflops`, TFLOPS per device as published; `compared`, the rate relative to the first plan's, or
    the rate itself if there is only one plan. None if a plan does not fit."""
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
    """Return the published values of the compared ratios by plan; for a single plan the rate that corresponds to its
    published share of peak performance."""
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


def dots(found: Mapping[str, Any], at_size: Mapping[str, Any], marks: Mapping[str, PlanMark], unit: str) -> Figure:
    """Plot a row per variation: a dot per plan, a dotted line at the plan's default value, and a star at its published
    value."""
    published, first, is_one = at_size["published"], found["plans"][0], len(found["plans"]) == 1
    default = at_size["default"]["compared"]
    varied = sorted(at_size["varied"], key=lambda one: -_moved(found["compared"], default, one["compared"]))
    rows = {_DEFAULT: default, **{_wrapped(one): one["compared"] for one in varied}}
    names = [*([_PUBLISHED] if published else []), *rows]
    traces: list[PlotTrace] = []
    shapes = []
    simulated = [value for compared in rows.values() for value in compared.values() if value is not None] or [0.0]
    for plan in found["compared"]:
        mark, base = marks[plan], default[plan]
        title = plan if is_one else f"{plan} : {first}"
        known = {name: compared[plan] for name, compared in rows.items() if compared[plan] is not None}
        look = {"color": mark.colour, "symbol": mark.symbol, "size": 11}
        hover = f"%{{y}}<br>{escape(title)} = %{{x:.4~g}}<extra></extra>"
        own = {"legendgroup": plan, "hovertemplate": hover}
        traces.append(scatter(title, list(known.values()), list(known), marker=look, **own))
        if base is not None:
            line = {"color": mark.colour, "width": 1.5, "dash": "dot"}
            shapes.append(
                {"type": "line", "xref": "x", "yref": "paper", "x0": base, "x1": base, "y0": 0, "y1": 1, "line": line}
            )
        if plan in published:
            (value,), (symbol,) = within([published[plan]], min(simulated), max(simulated), ACROSS)
            look = {"color": mark.colour, "symbol": symbol, "size": 15}
            own["hovertemplate"] = f"published {escape(title)} = {published[plan]:.4g}<extra></extra>"
            name = f"{title}, published: {published[plan]:.4g}"
            traces.append(scatter(name, [value], [_PUBLISHED], marker=look, **own))
    ends = [len(names) - 0.5, -0.5]
    y = axis("", type="category", categoryorder="array", categoryarray=names, range=ends, showgrid=True)
    y["tickfont"] = {"size": 12}
    height = 16 + _LINE * max(name.count("<br>") + 1 for name in names)  # of every row, as the longest name needs it
    what = unit if is_one else f"{unit} relative to {first}"
    return figure(traces, axis(what), y, 150 + height * len(names), shapes=shapes)


def _moved(plans: tuple[str, ...], default: Mapping[str, float | None], one: Mapping[str, float | None]) -> float:
    pairs = [(one[plan], default[plan]) for plan in plans]
    return max((abs(math.log(now / base)) for now, base in pairs if now and base), default=math.inf)


def _wrapped(one: Mapping[str, Any]) -> str:
    """Return a setting and its value broken into lines, as a label next to a chart."""
    return "<br>".join(map(escape, wrap(f"{one['setting']} = {one['value']}", _WRAP)))
