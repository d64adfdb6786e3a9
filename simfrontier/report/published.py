"""The prediction beside published figures, with the distance in per cent."""

from __future__ import annotations

import math
from collections.abc import Mapping

from simfrontier.report.markup import items, paragraph, section, table, text
from simfrontier.report.view import View, rate
from simfrontier.report.words import TOO_BIG, distance, number
from simfrontier.scenario import PublishedTable
from simfrontier.sensitivity import Sensitivity


def published(view: View, sensitivity: Sensitivity | None) -> str:
    """The section, or nothing where the scenario gives no published figures."""
    figures = view.scenario.file.published
    if figures is None:
        return ""
    size = sensitivity.devices if sensitivity else view.largest
    rates = rates_at(view, sensitivity, size)
    first = next(iter(figures.ratios))
    return section(
        "published",
        "Beside the published figures",
        paragraph(
            f"Published: {figures.source}. TFLOPS per {view.device} relative to {first} at {size:,} {view.devices}, "
            f"predicted {at_what(view)}; nothing is fitted to these figures."
        ),
        items((text(sentence) for sentence in sentences(figures, rates, first, what(view))), "findings"),
        _ratios(figures, rates, first),
        _efficiencies(view, figures),
    )


def rates_at(view: View, sensitivity: Sensitivity | None, size: int) -> dict[str, float]:
    """Predicted TFLOPS per device by plan at a size; nan where the plan does not fit or was not run."""
    rates = {o.plan: rate(o) if o.row["fits"] else math.nan for o in view.at(size)}
    return rates | dict(sensitivity.default) if sensitivity else rates


def what(view: View) -> str:
    """What the prediction may be called: the default one only if nothing was set on the command line."""
    return "prediction with these settings" if view.scenario.settings else "default prediction"


def at_what(view: View) -> str:
    """With which settings the prediction was made."""
    given = view.scenario.settings
    return "with " + ", ".join(given) + " set" if given else "at the documented defaults"


def sentences(
    figures: PublishedTable, rates: Mapping[str, float], first: str, called: str = "default prediction"
) -> list[str]:
    """Per plan, how far the predicted ratio lies from the published one."""
    said = []
    for plan, ratio in figures.ratios.items():
        found = rates.get(plan, math.nan) / rates.get(first, math.nan)
        if plan == first:
            continue
        if math.isnan(found):
            said.append(
                f"{plan} : {first} was published as {ratio:g}; there is no prediction, because a plan does not fit "
                "or was not run."
            )
        else:
            said.append(
                f"The {called} of {plan} : {first} is {found:.3f}, {_than(distance(found, ratio))} the "
                f"published {ratio:g}."
            )
    return said


def _than(apart: str) -> str:
    return f"{apart} to" if apart.startswith("equal") else apart


def _ratios(figures: PublishedTable, rates: Mapping[str, float], first: str) -> str:
    rows = []
    for plan, ratio in figures.ratios.items():
        own = rates.get(plan, math.nan)
        found = own / rates.get(first, math.nan)
        apart = "–" if plan == first or math.isnan(found) else distance(found, ratio)
        rows.append([text(plan), f"{ratio:.3f}", TOO_BIG if math.isnan(found) else f"{found:.3f}", apart, number(own)])
    return table(["plan", "published ratio", "predicted ratio", "the prediction is", "predicted TFLOPS"], rows)


def _efficiencies(view: View, figures: PublishedTable) -> str:
    rows = []
    for plan, value in figures.efficiency.items():
        rates = {o.devices: rate(o) for o in view.study.outcomes if o.plan == plan and o.row["fits"]}
        base = figures.efficiency_base_devices or min(rates, default=0)
        if base not in rates or view.largest not in rates:
            rows.append([text(plan), f"{base:,} to {view.largest:,}", f"{value:.3f}", "not run", "–"])
            continue
        found = rates[view.largest] / rates[base]
        rows.append(
            [text(plan), f"{base:,} to {view.largest:,}", f"{value:.3f}", f"{found:.3f}", distance(found, value)]
        )
    head = ["plan", f"from … to … {view.devices}", "published efficiency", "predicted efficiency", "the prediction is"]
    return table(head, rows) if rows else ""
