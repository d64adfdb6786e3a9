"""The prediction beside published figures, with the distance in per cent and the samples' ranges of its ratios."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from simfrontier.analysis import band_of
from simfrontier.report.batches import batch
from simfrontier.report.markup import items, paragraph, section, table, text
from simfrontier.report.peak import PeakShare, Range, peak_table, ratio_over_unknown, sentence as share_sentence, shares
from simfrontier.report.phrases import NOT_RUN, NOTHING, TOO_BIG, distance, distance_to, listed, number
from simfrontier.report.ranks import grid
from simfrontier.report.view import StudyView, rate
from simfrontier.scenario import PublishedTable, Scenario
from simfrontier.sensitivity import Sensitivity
from simfrontier.units import unit_of

_SHARED = (
    " Small, under ratios: what nine of ten paired samples lie within. Errors that both plans share cancel in a ratio."
)
_NAMED = 4  # settings that are named; the others are counted
_HARMLESS = ("run.devices = ", "uncertainty.")  # settings that leave every rate as it is


def published(view: StudyView, sensitivity: Sensitivity | None) -> str:
    """The section, or nothing where the scenario gives no published figures."""
    figures = view.scenario.file.published
    if figures is None:
        return ""
    judged = comparable(view.scenario) is not None
    ratios = _Ratios.of(view, sensitivity, figures) if figures.ratios else None
    parts = [sentence for sentence in ratio_sentences(view, sensitivity) if judged]
    parts += [f"{_named(share)}: {share_sentence(share)}." for share in shares(view, sensitivity) if judged]
    return section(
        "published",
        "Beside the published figures",
        paragraph(
            f"Published: {figures.source}. The figures are predicted {sizes_words(view)}; nothing is fitted to them."
        ),
        "" if judged else paragraph(_elsewhere(view), "callout"),
        items((text(sentence) for sentence in parts), "findings"),
        paragraph(assumed(view, sensitivity)),
        peak_table(view, sensitivity, judged),
        "" if ratios is None else ratios.table(view, judged),
        _efficiencies(view, figures, judged),
    )


def ratio_sentences(view: StudyView, sensitivity: Sensitivity | None) -> list[str]:
    """Per plan, how far the predicted ratio to the first plan lies from the published one, and its range."""
    figures = view.scenario.file.published
    if figures is None or not figures.ratios:
        return []
    ratios = _Ratios.of(view, sensitivity, figures)
    return sentences(figures, ratios.rates, ratios.first, quantity_words(view), ratios.bands, ratios.unknown)


def _named(share: PeakShare) -> str:
    return f"{share.plan} on {share.devices:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ratios:
    """Rates of plans at a size over the first plan's, with their ranges over samples and over what is unknown."""

    figures: PublishedTable
    first: str
    devices: int
    rates: Mapping[str, float]
    bands: Mapping[str, Range]
    unknown: Mapping[str, Range]

    @classmethod
    def of(cls, view: StudyView, sensitivity: Sensitivity | None, figures: PublishedTable) -> _Ratios:
        size, first = sensitivity.devices if sensitivity else view.largest, next(iter(figures.ratios))
        ranges = {p: ratio_over_unknown(sensitivity, p, first) for p in figures.ratios if p != first}
        return cls(
            figures=figures,
            first=first,
            devices=size,
            rates=rates_at(view, sensitivity, size),
            bands=ratio_bands(view, size, first),
            unknown={plan: ends for plan, ends in ranges.items() if ends is not None},
        )

    def table(self, view: StudyView, judged: bool) -> str:
        caption = f"TFLOPS per {view.device} relative to {self.first} at {self.devices:,} {view.devices}."
        return paragraph(caption + (_SHARED if self.bands else "")) + _ratios(self, judged)


def assumed(view: StudyView, sensitivity: Sensitivity | None) -> str:
    """The scenario's assumptions where the source is silent: what a search chose, and what is varied."""
    known = {(plan, size): case for (plan, size), case in view.cases.items() if plan in view.scenario.at(size).searches}
    parts = []
    if known and len(view.sizes) == 1:
        taken = [f"{plan} {grid(case)}, micro-batch {case.micro_batch}" for (plan, _), case in known.items()]
        parts.append(
            f"Grids that the scenario leaves open were searched for; the fastest that fit: {'; '.join(taken)}."
        )
    elif known:
        plans = listed(list(dict.fromkeys(plan for plan, _ in known)))
        parts.append(f"Grids of {plans} were searched for at every size; they stand under Ranks.")
    if view.scenario.file.training.batch is not None:
        parts.append(f"The scenario sets {batch(view)}.")
    if sensitivity is not None and sensitivity.varied:
        labels = list(dict.fromkeys(one.label.removesuffix(f", {unit_of(one.key)}") for one in sensitivity.varied))
        several = f"; and {len(labels) - _NAMED} more" if len(labels) > _NAMED + 1 else ""
        named = labels[:_NAMED] if several else labels
        parts.append(f"Unknown, and so varied one at a time under Sensitivity: {'; '.join(named)}{several}.")
    return " ".join(parts)


def comparable(scenario: Scenario) -> PublishedTable | None:
    """The published figures, if they are of the machine that is simulated: no other one was set on the command line."""
    was_set = any(setting.startswith("machine.name = ") for setting in scenario.settings)
    return None if was_set else scenario.file.published


def rates_at(view: StudyView, sensitivity: Sensitivity | None, size: int) -> dict[str, float]:
    """Predicted TFLOPS per device by plan at a size; nan where the plan does not fit; plans that were not run are not
    in it."""
    rates = {o.plan: rate(o) if o.row["fits"] else math.nan for o in view.at(size)}
    return rates | dict(sensitivity.default) if sensitivity else rates


def lacking(rates: Mapping[str, float], plan: str) -> str:
    """Why there is no rate of a plan: it was not run, or does not fit; empty where there is one."""
    return NOT_RUN if plan not in rates else TOO_BIG if math.isnan(rates[plan]) else ""


def ratio_bands(view: StudyView, size: int, first: str) -> dict[str, tuple[float, float]]:
    """Within what nine of ten paired samples of each plan's rate over the first plan's lie; plans without samples are
    not in it."""
    samples = {o.plan: o.samples_s for o in view.at(size) if o.samples_s is not None}
    if first not in samples:
        return {}
    # Both do the same work at one size, so that rates are as the inverse of times.
    ratios = {plan: band_of(samples[first] / own) for plan, own in samples.items() if plan != first}
    return {plan: (low, high) for plan, (low, _, high) in ratios.items()}


def given(view: StudyView) -> list[str]:
    """What was set on the command line that changes results."""
    settings = [setting for setting in view.scenario.settings if not setting.startswith(_HARMLESS)]
    if view.study.fidelity != view.scenario.file.run.fidelity:
        settings.append(f"fidelity = {view.study.fidelity}")
    return settings


def quantity_words(view: StudyView) -> str:
    """The name of the prediction: the default one only if nothing was set on the command line."""
    return "prediction with these settings" if given(view) else "default prediction"


def sizes_words(view: StudyView) -> str:
    """The settings of the prediction."""
    settings = given(view)
    return "with " + ", ".join(settings) + " set" if settings else "at the documented defaults"


def sentences(
    figures: PublishedTable,
    rates: Mapping[str, float],
    first: str,
    called: str = "default prediction",
    bands: Mapping[str, Range] | None = None,
    unknown: Mapping[str, Range] | None = None,
) -> list[str]:
    """Per plan, how far the predicted ratio lies from the published one."""
    within = {plan: _within((bands or {}).get(plan), (unknown or {}).get(plan)) for plan in figures.ratios}
    return [
        _sentence(f"{plan} : {first}", ratio, rates, plan, first, called, within[plan])
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
    within: str,
) -> str:
    why = _why({one: lacking(rates, one) for one in (plan, first)})
    if why:
        return f"{name} was published as {ratio:g}; there is no prediction, because {why}."
    predicted = rates[plan] / rates[first]
    return (
        f"The {called} of {name} is {predicted:.3f}{within}, {distance_to(predicted, ratio)} the published {ratio:g}."
    )


def _within(band: Range | None, unknown: Range | None) -> str:
    parts = [f"nine samples of ten: {band[0]:.3f} to {band[1]:.3f}"] if band else []
    parts += [f"over what is unknown: {unknown[0]:.3f} to {unknown[1]:.3f}"] if unknown else []
    return f" ({'; '.join(parts)})" if parts else ""


def _why(states: Mapping[str, str]) -> str:
    """Which plans have no rate and why, in words; empty where all have one."""
    idle = [plan for plan, state in states.items() if state == NOT_RUN]
    parts = [f"{listed(idle)} {'was' if len(idle) == 1 else 'were'} {NOT_RUN}"] if idle else []
    return listed([*parts, *(f"{plan} {state}" for plan, state in states.items() if state and state != NOT_RUN)])


def _elsewhere(view: StudyView) -> str:
    return (
        "These figures are of the machine that the scenario file names; the prediction is for "
        f"{view.scenario.machine.name}, set on the command line. How far two machines are apart says nothing of the "
        "model."
    )


def _ratios(known: _Ratios, judged: bool) -> str:
    figures, rates, first, bands, rows = known.figures, known.rates, known.first, known.bands, []
    for plan, ratio in figures.ratios.items():
        state, predicted = lacking(rates, plan), rates.get(plan, math.nan) / rates.get(first, math.nan)
        within = f"<small>{bands[plan][0]:.3f} to {bands[plan][1]:.3f}</small>" if plan in bands else ""
        shown = f"{predicted:.3f}{within}" if math.isfinite(predicted) else state or NOTHING
        apart = distance(predicted, ratio) if judged and plan != first and math.isfinite(predicted) else NOTHING
        ends = [f"{end:.3f}" for end in known.unknown.get(plan, ())]
        over = [" to ".join(ends) or NOTHING] if known.unknown else []
        rows.append([text(plan), f"{ratio:.3f}", shown, apart, *over, state or number(rates[plan])])
    over = ["over what is unknown"] if known.unknown else []
    return table(["plan", "published ratio", "predicted ratio", "the prediction is", *over, "predicted TFLOPS"], rows)


def _efficiencies(view: StudyView, figures: PublishedTable, judged: bool) -> str:
    rows = [
        [text(plan), *_efficiency(view, figures, plan, value, judged)] for plan, value in figures.efficiency.items()
    ]
    head = ["plan", f"from … to … {view.devices}", "published efficiency", "predicted efficiency", "the prediction is"]
    return table(head, rows) if rows else ""


def _efficiency(view: StudyView, figures: PublishedTable, plan: str, value: float, judged: bool) -> Iterator[str]:
    """The cells of a plan's row behind its name."""
    rates = {o.devices: rate(o) if o.row["fits"] else math.nan for o in view.study.of(plan)}
    fitting = [size for size, own in rates.items() if math.isfinite(own)]
    base = figures.efficiency_base_devices or min(fitting, default=0)
    yield f"{base:,} to {view.largest:,}" if base else f"to {view.largest:,}"
    yield f"{value:.3f}"
    efficiency = rates.get(view.largest, math.nan) / rates.get(base, math.nan)
    if math.isfinite(efficiency) and base != view.largest:
        yield f"{efficiency:.3f}"
        yield distance(efficiency, value) if judged else NOTHING
    else:
        was_run = view.largest in rates and base in rates and base != view.largest
        yield TOO_BIG if was_run or (rates and not fitting) else NOT_RUN
        yield NOTHING
