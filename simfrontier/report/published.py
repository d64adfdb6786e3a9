"""The prediction beside published figures, with the distance in per cent and what the samples say of its ratios."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from simfrontier.analysis.uncertainty import band_of
from simfrontier.report.markup import items, paragraph, section, table, text
from simfrontier.report.view import View, rate
from simfrontier.report.words import NOT_RUN, NOTHING, TOO_BIG, distance, listed, number
from simfrontier.scenario import PublishedTable, Scenario
from simfrontier.sensitivity import Sensitivity

_SHARED = (
    " Small, under ratios: what nine of ten paired samples lie within. Errors that both plans share cancel in a ratio."
)
_HARMLESS = ("run.devices = ", "uncertainty.")  # settings that leave every rate as it is


def published(view: View, sensitivity: Sensitivity | None) -> str:
    """The section, or nothing where the scenario gives no published figures."""
    figures = view.scenario.file.published
    if figures is None:
        return ""
    size = sensitivity.devices if sensitivity else view.largest
    rates = rates_at(view, sensitivity, size)
    first = next(iter(figures.ratios))
    bands = ratio_bands(view, size, first)
    judged = comparable(view.scenario) is not None
    said = sentences(figures, rates, first, what(view), bands) if judged else []
    return section(
        "published",
        "Beside the published figures",
        paragraph(
            f"Published: {figures.source}. TFLOPS per {view.device} relative to {first} at {size:,} {view.devices}, "
            f"predicted {at_what(view)}; nothing is fitted to these figures." + (_SHARED if bands else "")
        ),
        "" if judged else paragraph(_elsewhere(view), "callout"),
        items((text(sentence) for sentence in said), "findings"),
        _ratios(figures, rates, first, bands, judged),
        _efficiencies(view, figures, judged),
    )


def comparable(scenario: Scenario) -> PublishedTable | None:
    """The published figures, if they are of the machine that is simulated: no other one was set on the command line."""
    was_set = any(setting.startswith("machine.name = ") for setting in scenario.settings)
    return None if was_set else scenario.file.published


def rates_at(view: View, sensitivity: Sensitivity | None, size: int) -> dict[str, float]:
    """Predicted TFLOPS per device by plan at a size; nan where the plan does not fit; plans that were not run are not
    in it."""
    rates = {o.plan: rate(o) if o.row["fits"] else math.nan for o in view.at(size)}
    return rates | dict(sensitivity.default) if sensitivity else rates


def lacking(rates: Mapping[str, float], plan: str) -> str:
    """Why there is no rate of a plan: it was not run, or does not fit; empty where there is one."""
    return NOT_RUN if plan not in rates else TOO_BIG if math.isnan(rates[plan]) else ""


def ratio_bands(view: View, size: int, first: str) -> dict[str, tuple[float, float]]:
    """Within what nine of ten paired samples of each plan's rate over the first plan's lie; plans without samples are
    not in it."""
    samples = {o.plan: o.samples_s for o in view.at(size) if o.samples_s is not None}
    if first not in samples:
        return {}
    # Both do the same work at one size, so that rates are as the inverse of times.
    ratios = {plan: band_of(samples[first] / own) for plan, own in samples.items() if plan != first}
    return {plan: (low, high) for plan, (low, _, high) in ratios.items()}


def given(view: View) -> list[str]:
    """What was set on the command line that changes results."""
    settings = [setting for setting in view.scenario.settings if not setting.startswith(_HARMLESS)]
    if view.study.fidelity != view.scenario.file.run.fidelity:
        settings.append(f"fidelity = {view.study.fidelity}")
    return settings


def what(view: View) -> str:
    """What the prediction may be called: the default one only if nothing was set on the command line."""
    return "prediction with these settings" if given(view) else "default prediction"


def at_what(view: View) -> str:
    """With which settings the prediction was made."""
    settings = given(view)
    return "with " + ", ".join(settings) + " set" if settings else "at the documented defaults"


def sentences(
    figures: PublishedTable,
    rates: Mapping[str, float],
    first: str,
    called: str = "default prediction",
    bands: Mapping[str, tuple[float, float]] | None = None,
) -> list[str]:
    """Per plan, how far the predicted ratio lies from the published one."""
    return [
        _sentence(f"{plan} : {first}", ratio, rates, plan, first, called, (bands or {}).get(plan))
        for plan, ratio in figures.ratios.items()
        if plan != first
    ]


def _sentence(
    name: str,
    ratio: float,
    rates: Mapping[str, float],
    plan: str,
    first: str,
    called: str,
    band: tuple[float, float] | None,
) -> str:
    why = _why({one: lacking(rates, one) for one in (plan, first)})
    if why:
        return f"{name} was published as {ratio:g}; there is no prediction, because {why}."
    found = rates[plan] / rates[first]
    within = f" (nine samples of ten: {band[0]:.3f} to {band[1]:.3f})" if band else ""
    return f"The {called} of {name} is {found:.3f}{within}, {_than(distance(found, ratio))} the published {ratio:g}."


def _why(states: Mapping[str, str]) -> str:
    """Which plans have no rate and why, in words; empty where all have one."""
    idle = [plan for plan, state in states.items() if state == NOT_RUN]
    said = [f"{listed(idle)} {'was' if len(idle) == 1 else 'were'} {NOT_RUN}"] if idle else []
    return listed([*said, *(f"{plan} {state}" for plan, state in states.items() if state and state != NOT_RUN)])


def _than(apart: str) -> str:
    return f"{apart} to" if apart.startswith("equal") else apart


def _elsewhere(view: View) -> str:
    return (
        "These figures are of the machine that the scenario file names; the prediction is for "
        f"{view.scenario.machine.name}, set on the command line. How far two machines are apart says nothing of the "
        "model."
    )


def _ratios(
    figures: PublishedTable,
    rates: Mapping[str, float],
    first: str,
    bands: Mapping[str, tuple[float, float]],
    judged: bool,
) -> str:
    rows = []
    for plan, ratio in figures.ratios.items():
        state, found = lacking(rates, plan), rates.get(plan, math.nan) / rates.get(first, math.nan)
        within = f"<small>{bands[plan][0]:.3f} to {bands[plan][1]:.3f}</small>" if plan in bands else ""
        shown = f"{found:.3f}{within}" if math.isfinite(found) else state or NOTHING
        apart = distance(found, ratio) if judged and plan != first and math.isfinite(found) else NOTHING
        rows.append([text(plan), f"{ratio:.3f}", shown, apart, state or number(rates[plan])])
    return table(["plan", "published ratio", "predicted ratio", "the prediction is", "predicted TFLOPS"], rows)


def _efficiencies(view: View, figures: PublishedTable, judged: bool) -> str:
    rows = [
        [text(plan), *_efficiency(view, figures, plan, value, judged)] for plan, value in figures.efficiency.items()
    ]
    head = ["plan", f"from … to … {view.devices}", "published efficiency", "predicted efficiency", "the prediction is"]
    return table(head, rows) if rows else ""


def _efficiency(view: View, figures: PublishedTable, plan: str, value: float, judged: bool) -> Iterator[str]:
    """The cells of a plan's row behind its name."""
    rates = {o.devices: rate(o) if o.row["fits"] else math.nan for o in view.study.of(plan)}
    fitting = [size for size, own in rates.items() if math.isfinite(own)]
    base = figures.efficiency_base_devices or min(fitting, default=0)
    yield f"{base:,} to {view.largest:,}" if base else f"to {view.largest:,}"
    yield f"{value:.3f}"
    found = rates.get(view.largest, math.nan) / rates.get(base, math.nan)
    if math.isfinite(found) and base != view.largest:
        yield f"{found:.3f}"
        yield distance(found, value) if judged else NOTHING
    else:
        was_run = view.largest in rates and base in rates and base != view.largest
        yield TOO_BIG if was_run or (rates and not fitting) else NOT_RUN
        yield NOTHING
