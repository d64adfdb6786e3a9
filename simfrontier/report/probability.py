"""How sure the ranking is: for each pair of plans the share of samples in which one is faster, and what was sampled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from simfrontier.analysis.uncertainty import probability_faster, spread_of
from simfrontier.report.markup import items, keyed, panels, paragraph, section, table, text
from simfrontier.report.view import View, rate, step_s
from simfrontier.report.words import listed, percent, quantity, sizes_in_words
from simfrontier.study import Outcome

SURE = 0.9  # a ranking that fewer samples agree with is too close to call
_UNKNOWN = (
    "There are no error bars: neither the machine’s file (device.speed_sd, device.matmul_sd) nor the library’s "
    "(residual) says how far its numbers are from measurements."
)
_OFF = "There are no error bars: the scenario asks for no samples (uncertainty.samples = 0)."


def probability(view: View) -> str:
    """The section: what was sampled, what the slowest device costs, and one table of pairs for every size."""
    sizes = [size for size in view.sizes if sampled(view, size)]
    if not sizes:
        return section("probability", "How sure the ranking is", paragraph(_why_not(view)))
    pairs = {f"{size:,}": _pairs(view, size) for size in reversed(sizes) if len(sampled(view, size)) > 1}
    return section(
        "probability",
        "How sure the ranking is",
        paragraph(
            f"Every step was worked out {_num_samples(view):,} more times, each time with other errors of what it "
            "rests on. In one sample, errors that plans share are the same for all of them, so that plans are compared "
            "fairly. As standard deviations:"
        ),
        items(text(said) for said in sources(view)),
        paragraph(bias(view, sampled(view, sizes[-1])[0]), "callout"),
        f"<h3>Which plan is faster, by number of {view.devices}</h3>" + panels(pairs) if pairs else "",
        paragraph(_LIMITS, "note"),
    )


_LIMITS = (
    "A ranking that fewer than 90 % of the samples agree with is called too close to call. What ran beside an "
    "operation, and slowed it, stays in a sample as it was simulated. Settings that are unknown are not sampled; "
    "sensitivity is about these."
)


def sampled(view: View, size: int) -> list[Outcome]:
    """Outcomes at a size that have samples, the fastest first."""
    known = [outcome for outcome in view.at(size) if outcome.samples_s is not None]
    return sorted(known, key=lambda outcome: -rate(outcome))


def share_faster(first: Outcome, second: Outcome) -> float | None:
    """The share of samples in which the first is faster; None where there are no samples."""
    if first.samples_s is None or second.samples_s is None:
        return None
    return probability_faster(first.samples_s, second.samples_s)


def in_samples(share: float) -> str:
    """A share of samples in words: all, 97 %, none; rounded towards the half, so as never to say more than there is."""
    if share in (0.0, 1.0):
        return "all samples" if share else "none of the samples"
    inside = math.floor(100 * share + 1e-9) if share >= 0.5 else math.ceil(100 * share - 1e-9)
    return f"{inside}\u00a0% of the samples"


def verdict(first: Outcome, second: Outcome, share: float) -> str:
    """Which of two plans is faster, or that it is too close to call; the first is the one ranked higher."""
    if share >= SURE:
        return f"{first.plan} is faster than {second.plan} in {in_samples(share)}."
    return f"{first.plan} and {second.plan} are too close to call: {first.plan} is faster in {in_samples(share)}."


def sources(view: View) -> Iterator[str]:
    """What is sampled, one sentence each, and what is not known to be uncertain."""
    scenario = view.scenario
    spread, library = spread_of(scenario.machine, scenario.library), scenario.library.title
    said = {
        f"the law of {library} against measurements it had not seen, one error for every kind of call "
        f"(operation, algorithm, group, size), {percent(spread.common_share)} of its variance common to all sizes": (
            spread.model_sd
        ),
        "single calls from run to run, an error for each": spread.run_sd,
        f"speed between {view.devices}, of which the slowest sets the pace": spread.speed_sd,
        "the law of matrix products, one error for all": spread.matmul_sd,
    }
    for what, sd in said.items():
        if sd:
            yield f"{percent(sd)}: {what}."
    unknown = [what.partition(",")[0] for what, sd in said.items() if not sd]
    if unknown:
        yield f"Not known, and so not sampled: {listed(unknown)}."


def bias(view: View, outcome: Outcome) -> str:
    """What the slowest of many devices does to a step, in plain words, on the example of one outcome."""
    assert outcome.samples_s is not None, "only outcomes with samples are an example"
    low, middle, high = np.quantile(outcome.samples_s, (0.05, 0.5, 0.95)).tolist()
    typical, size = step_s(outcome), f"{outcome.devices:,}"
    said = (
        f"Everywhere else on this page {view.devices} are typical and errors zero: {outcome.plan} on {size} takes "
        f"{quantity(typical, 's')}. "
    )
    if spread_of(view.scenario.machine, view.scenario.library).speed_sd:
        said += (
            f"But a step waits for the slowest of all {size} {view.devices}, and of many one is always slow: that "
            "makes steps longer than typical ones, not only less certain, and more so the more there are. "
        )
    said += f"Half of the samples take more than {quantity(middle, 's')}, nine of ten {_range(low, high)}"
    outside = "below" if typical < low else "above" if typical > high else ""
    return said + (f"; the typical step lies {outside} that range." if outside else ".")


def band(outcome: Outcome) -> str:
    """The range of step times that holds nine samples of ten, as text; empty where there are no samples."""
    low, high = outcome.row["step_time_p05_s"], outcome.row["step_time_p95_s"]
    return _range(low, high) if isinstance(low, float) and isinstance(high, float) else ""


def _range(low: float, high: float) -> str:
    return f"{quantity(low, 's')} to {quantity(high, 's')}"


def _num_samples(view: View) -> int:
    return view.scenario.file.uncertainty.samples


def _why_not(view: View) -> str:
    if not any(outcome.row["fits"] for outcome in view.study.outcomes):
        return f"No plan fits on {sizes_in_words(view.sizes)} {view.devices}, so there is nothing to compare."
    return _UNKNOWN if _num_samples(view) else _OFF


def _pairs(view: View, size: int) -> str:
    """Of one size: neighbours in the ranking in words, and every pair in a table."""
    ranked = sampled(view, size)
    said = (verdict(a, b, share) for a, b in pairwise(ranked) if (share := share_faster(a, b)) is not None)
    head = [f"is faster on {size:,} than …", *(text(outcome.plan) for outcome in ranked)]
    return items((text(sentence) for sentence in said), "findings") + table(head, _rows(view, ranked), "named")


def _rows(view: View, ranked: Sequence[Outcome]) -> Iterator[list[str]]:
    for outcome in ranked:
        cells = (_cell(share_faster(outcome, other)) if other is not outcome else "" for other in ranked)
        yield [keyed(view.marks[outcome.plan].colour, outcome.plan), *cells]


def _cell(share: float | None) -> str:
    return "" if share is None else text(in_samples(share).partition(" ")[0])
