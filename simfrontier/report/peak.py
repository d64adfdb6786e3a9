"""Published shares of the peak beside the predicted ones, with their range over samples and over what is unknown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from simfrontier.report.markup import keyed, paragraph, table, text
from simfrontier.report.phrases import NOT_RUN, NOTHING, TOO_BIG, distance, percent, percent_between, quantity
from simfrontier.report.view import StudyView, rate, step_s
from simfrontier.scenario import Scenario
from simfrontier.sensitivity import Sensitivity
from simfrontier.study import BAND, PlanOutcome

Range = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakShare:
    """The share of the peak (0 to 1) of one plan at one size: as published, as predicted (None where it was not run or
    does not fit: `state`), and its range over samples and over the variations of what is unknown, where there
    are any. `paced`: in samples the slowest device sets the pace."""

    plan: str
    devices: int
    published: float
    predicted: float | None
    state: str = ""
    sampled: Range | None = None
    unknown: Range | None = None
    paced: bool = False


def shares(view: StudyView, sensitivity: Sensitivity | None) -> list[PeakShare]:
    """All published shares, in the scenario's order."""
    figures = view.scenario.file.published
    if figures is None:
        return []
    made = []
    for plan, sizes in figures.percent_of_peak.items():
        for size, value in sizes.items():
            outcome = next((o for o in view.at(int(size)) if o.plan == plan), None)
            made.append(_share(view, plan, int(size), value / 100, outcome, sensitivity))
    return made


def _share(
    view: StudyView,
    plan: str,
    size: int,
    published: float,
    outcome: PlanOutcome | None,
    sensitivity: Sensitivity | None,
) -> PeakShare:
    if outcome is None or not outcome.row["fits"]:
        state = NOT_RUN if outcome is None else TOO_BIG
        return PeakShare(plan=plan, devices=size, published=published, predicted=None, state=state)
    peak = view.scenario.at(size).peak_flops_per_s / 1e12
    sampled = None
    if outcome.samples_s is not None:
        work = rate(outcome) * step_s(outcome) / peak
        sampled = work / float(outcome.row[BAND[2]]), work / float(outcome.row[BAND[0]])
    return PeakShare(
        plan=plan,
        devices=size,
        published=published,
        predicted=rate(outcome) / peak,
        sampled=sampled,
        unknown=over_unknown(sensitivity, plan, size, peak),
        paced=bool(view.scenario.machine.device.speed_sd),
    )


def sizes_of(sensitivity: Sensitivity) -> tuple[Sensitivity, ...]:
    """The variations at every size, the largest first."""
    return (sensitivity, *sorted(sensitivity.smaller, key=lambda each: -each.devices))


def published_tflops(scenario: Scenario, plan: str, size: int) -> float | None:
    """The TFLOPS per device that a published share of the peak means; None where there is none."""
    figures = scenario.file.published
    percentage = figures.percent_of_peak.get(plan, {}).get(str(size)) if figures else None
    return None if percentage is None else percentage / 100 * scenario.at(size).peak_flops_per_s / 1e12


def over_unknown(sensitivity: Sensitivity | None, plan: str, size: int, peak_tflops: float) -> Range | None:
    """The lowest and the highest share of a plan at a size, at the defaults and under every variation with which it
    fits; None where nothing is varied."""
    at_size = next((each for each in (sizes_of(sensitivity) if sensitivity else ()) if each.devices == size), None)
    if at_size is None or plan not in at_size.default:
        return None
    known = [at_size.default[plan] / peak_tflops]
    known += [one.rates[plan] / (one.peak_flops_per_s / 1e12) for one in at_size.varied]
    known = [share for share in known if math.isfinite(share)]
    return (min(known), max(known)) if known else None


def ratio_over_unknown(sensitivity: Sensitivity | None, plan: str, first: str) -> Range | None:
    """The same for a plan's rate over the first plan's."""
    if sensitivity is None or not {plan, first} <= set(sensitivity.default):
        return None
    rates = [sensitivity.default, *(one.rates for one in sensitivity.varied)]
    known = [ratio for each in rates if math.isfinite(ratio := each[plan] / each[first])]
    return (min(known), max(known)) if known else None


def written(ends: Range) -> str:
    """A range of shares: 51.2 to 72.0 %."""
    return percent_between(*ends)


def sentence(share: PeakShare) -> str:
    """One figure in a line: `published 57 %, predicted 70.8 %, 51.2 to 72.0 % over what is unknown`."""
    message = f"published {100 * share.published:g}\u00a0% of the peak"
    if share.predicted is None:
        return f"{message}, {share.state}"
    message += f", predicted {percent(share.predicted)}"
    if share.sampled is not None:
        slowest = f" with the slowest of {share.devices:,}" if share.paced else ""
        message += f", {written(share.sampled)} in nine samples of ten{slowest}"
    if share.unknown is not None:
        message += f", {written(share.unknown)} over what is unknown"
    return message


def peak_table(view: StudyView, sensitivity: Sensitivity | None, judged: bool) -> str:
    """The table with what the shares are of; empty where none is published."""
    known = shares(view, sensitivity)
    if not known:
        return ""
    counts = " (the recomputation of checkpointed activations included, as the authors count)"
    recomputed = counts if any(view.recomputing.values()) else ""
    peaks = {size: view.scenario.at(size).peak_flops_per_s for size in view.sizes}
    message = (
        f"Share of the peak: operations that the hardware does{recomputed} over step "
        f"time and the nominal {quantity(peaks[view.largest], 'flop/s')} of a {view.device} in "
        f"{view.scenario.precision.model}."
    )
    if any(share.unknown for share in known):
        message += " Over what is unknown: the lowest and the highest prediction of all variations under Sensitivity."
    if any(share.sampled and share.paced for share in known):
        message += f" In samples the slowest {view.device} sets the pace, so that they may lie below the prediction."
    return paragraph(message) + table(*_rows(view, known, judged))


def _rows(view: StudyView, known: list[PeakShare], judged: bool) -> tuple[list[str], list[list[str]]]:
    with_samples = any(share.sampled for share in known)
    with_unknown = any(share.unknown for share in known)

    def cells(share: PeakShare) -> Iterator[str]:
        name = share.plan
        yield keyed(view.marks[name].colour, name) if name in view.marks else text(name)
        yield f"{share.devices:,}"
        yield f"{100 * share.published:g}\u00a0%"
        yield percent(share.predicted) if share.predicted is not None else share.state
        yield distance(share.predicted, share.published) if judged and share.predicted is not None else NOTHING
        if with_samples:
            yield written(share.sampled) if share.sampled else NOTHING
        if with_unknown:
            yield written(share.unknown) if share.unknown else NOTHING

    head = ["plan", view.devices, "published share of the peak", "predicted", "the prediction is"]
    head += ["nine samples of ten"] if with_samples else []
    head += ["over what is unknown"] if with_unknown else []
    return head, [list(cells(share)) for share in known]
