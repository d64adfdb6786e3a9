"""The certainty of the ranking: for each pair of plans the share of samples in which one is faster, and what was
sampled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from simfrontier.analysis import band_of, probability_faster, spread_of
from simfrontier.collectives import Residual
from simfrontier.report.markup import items, keyed, panels, paragraph, section, table, text
from simfrontier.report.phrases import (
    as_percent,
    binary,
    device_word,
    in_samples,
    listed,
    number,
    percent,
    quantity,
    sizes_in_words,
)
from simfrontier.report.view import StudyView, rate, step_s
from simfrontier.scenario import Scenario
from simfrontier.study import BAND, PlanOutcome

SURE = 0.9  # a ranking that fewer samples agree with is too close to call
_UNKNOWN = (
    "There are no error bars: neither the machine’s file (device.speed_sd, device.matmul_sd) nor the library’s "
    "(residual) says how far its numbers are from measurements."
)
SHARED = (
    "Bands of plans overlap because most errors are shared: a sample draws them once for all plans. The ranking "
    "compares plans within a sample."
)
_OFF = "There are no error bars: the scenario asks for no samples (uncertainty.samples = 0)."


def probability(view: StudyView) -> str:
    """The section: what was sampled, what the slowest device costs, and one table of pairs for every size."""
    sizes = [size for size in view.sizes if sampled(view, size)]
    if not sizes:
        return section("probability", "How sure the ranking is", paragraph(_why_not(view)))
    pairs = {f"{size:,}": _pairs(view, size) for size in reversed(sizes) if len(sampled(view, size)) > 1}
    return section(
        "probability",
        "How sure the ranking is",
        paragraph(
            f"Every step was worked out {_num_samples(view):,} more times, each time with the inputs drawn anew from "
            f"their known errors. {SHARED} As standard deviations:"
        ),
        items(text(message) for message in sources(view)),
        paragraph(bias(view, sampled(view, sizes[-1])[0]), "callout"),
        f"<h3>Which plan is faster, by number of {view.devices}</h3>" + panels(pairs) if pairs else "",
        paragraph(_LIMITS, "note"),
    )


_LIMITS = (
    "A ranking that fewer than 90 % of the samples agree with is called too close to call. Samples change durations, "
    "not which operations run beside each other. Settings that are unknown are not sampled; sensitivity is about these."
)


def sampled(view: StudyView, size: int) -> list[PlanOutcome]:
    """Outcomes at a size that have samples, the fastest first."""
    known = [outcome for outcome in view.at(size) if outcome.samples_s is not None]
    return sorted(known, key=lambda outcome: -view.pace(outcome))


def share_faster(first: PlanOutcome, second: PlanOutcome) -> float | None:
    """The share of samples in which the first is faster; None where there are no samples."""
    sampled = sampled_share(first, second)
    return None if sampled is None else sampled[0]


def sampled_share(first: PlanOutcome, second: PlanOutcome) -> tuple[float, int] | None:
    """The share of samples in which the first is faster, and how many there are; None where there are none."""
    if first.samples_s is None or second.samples_s is None:
        return None
    return probability_faster(first.samples_s, second.samples_s), len(first.samples_s)


def faster_in(first: PlanOutcome, second: PlanOutcome) -> str:
    """In what share of the samples the first is faster, in words; empty where there are no samples."""
    sampled = sampled_share(first, second)
    return "" if sampled is None else in_samples(*sampled)


def verdict(first: PlanOutcome, second: PlanOutcome) -> str:
    """Which of two plans with samples is faster, or that it is too close to call; the first is the one ranked
    higher."""
    share, message = share_faster(first, second), faster_in(first, second)
    assert share is not None, "only outcomes with samples are compared"
    if share >= SURE:
        return f"{first.plan} is faster than {second.plan} in {message}."
    return f"{first.plan} and {second.plan} are too close to call: {first.plan} is faster in {message}."


def sources(view: StudyView) -> Iterator[str]:
    """What is sampled in a study, as `sources_of`."""
    return sources_of(view.scenario)


def sources_of(scenario: Scenario) -> Iterator[str]:
    """What is sampled, one sentence each, and what is not known to be uncertain."""
    spread, library = spread_of(scenario.machine, scenario.library), scenario.library.title
    law = spread.law
    inputs = (  # what is sampled, how its errors are shared, and their standard deviation
        (
            f"the law of {library} against measurements it had not seen",
            f"one error for every kind of call (operation, algorithm, group, size), {percent(law.common_share)} of its "
            f"variance common to all sizes{_others(law)}",
            law.model_sd,
        ),
        ("single calls from run to run", "an error for each", law.run_sd),
        (f"speed between {device_word(scenario.machine)}s", "of which the slowest sets the pace", spread.speed_sd),
        ("the law of matrix products", "one error for all", spread.matmul_sd),
    )
    for source, shared, sd in inputs:
        if sd:
            yield f"{percent(sd)}: {source}, {shared}."
    unknown = [source for source, _, sd in inputs if not sd]
    if unknown:
        yield f"Not known, and so not sampled: {listed(unknown)}."


def _others(law: Residual) -> str:
    """What of a law is farther off than the rest."""
    others = [f"messages below {binary(law.small_bytes)} {percent(law.small_sd)}"] if law.small_sd else []
    others += [f"{kind.replace('_', '-')}s {percent(sd)}" for kind, sd in law.of_kind.items() if sd != law.model_sd]
    return f" (over several nodes {', '.join(others)})" if others else ""


def bias(view: StudyView, outcome: PlanOutcome) -> str:
    """What the slowest of many devices does to a step, in plain words, on the example of one outcome."""
    assert outcome.samples_s is not None, "only outcomes with samples are an example"
    low, middle, high = band_of(outcome.samples_s)
    typical, size = step_s(outcome), f"{outcome.devices:,}"
    differ = bool(view.scenario.machine.device.speed_sd)
    message = (
        f"Where this page gives one number, {f'{view.devices} are typical and ' if differ else ''}errors are zero: "
        f"{outcome.plan} on {size} takes {quantity(typical, 's')}. "
    )
    if differ:
        message += (
            f"But a step waits for the slowest of all {size} {view.devices}, and of many one is always slow: that "
            "makes steps longer than typical ones, not only less certain, and more so the more there are. "
        )
    message += f"Half of the samples take more than {quantity(middle, 's')}, nine of ten {_range(low, high)}"
    outside = "below" if typical < low else "above" if typical > high else ""
    one = "typical step" if differ else "step without errors"
    return message + (f"; the {one} lies {outside} that range." if outside else ".")


def sampled_step(scenario: Scenario, outcome: PlanOutcome) -> str:
    """Samples of a step beside the typical one: `with the slowest of 384: 4.91 s (4.80 s to 5.10 s)`; empty where there
    are no samples."""
    if outcome.samples_s is None:
        return ""
    low, middle, high = (float(outcome.row[column]) for column in BAND)
    return f"{_of_samples(scenario, outcome)}: {quantity(middle, 's')} ({_range(low, high)})"


def sampled_rate(scenario: Scenario, outcome: PlanOutcome) -> str:
    """Samples of TFLOPS per device: `with the slowest of 384: 76.0 (74.0 to 78.1)`; empty where there are none."""
    if outcome.samples_s is None:
        return ""
    low, _, high = _rates(outcome)
    return f"{median_rate(scenario, outcome)} ({number(low)} to {number(high)})"


def median_rate(scenario: Scenario, outcome: PlanOutcome) -> str:
    """The median of sampled TFLOPS per device: `with the slowest of 384: 76.0`; of an outcome that has samples."""
    return f"{_of_samples(scenario, outcome)}: {number(_rates(outcome)[1])}"


def _rates(outcome: PlanOutcome) -> tuple[float, float, float]:
    """Sampled TFLOPS per device: the low end of the band, the median, the high end."""
    work = rate(outcome) * step_s(outcome)
    high, middle, low = (work / float(outcome.row[column]) for column in BAND)
    return low, middle, high


def _of_samples(scenario: Scenario, outcome: PlanOutcome) -> str:
    if scenario.machine.device.speed_sd:
        return f"with the slowest of {outcome.devices:,}"
    return "median of the samples"


def _range(low: float, high: float) -> str:
    return f"{quantity(low, 's')} to {quantity(high, 's')}"


def _num_samples(view: StudyView) -> int:
    return view.scenario.file.uncertainty.samples


def _why_not(view: StudyView) -> str:
    if not any(outcome.row["fits"] for outcome in view.study.outcomes):
        return f"No plan fits on {sizes_in_words(view.sizes)} {view.devices}, so there is nothing to compare."
    return _UNKNOWN if _num_samples(view) else _OFF


def _pairs(view: StudyView, size: int) -> str:
    """Of one size: neighbours in the ranking in words, and every pair in a table."""
    ranked = sampled(view, size)
    message = (verdict(a, b) for a, b in pairwise(ranked))
    head = [f"is faster on {size:,} than …", *(text(outcome.plan) for outcome in ranked)]
    return items((text(sentence) for sentence in message), "findings") + table(head, _rows(view, ranked), "named")


def _rows(view: StudyView, ranked: Sequence[PlanOutcome]) -> Iterator[list[str]]:
    for outcome in ranked:
        cells = (_cell(outcome, other) if other is not outcome else "" for other in ranked)
        yield [keyed(view.marks[outcome.plan].colour, outcome.plan), *cells]


def _cell(first: PlanOutcome, second: PlanOutcome) -> str:
    sampled = sampled_share(first, second)
    return "" if sampled is None else text(as_percent(*sampled))
