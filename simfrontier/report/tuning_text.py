"""A search for the best plan in words, for the page and the terminal: what was searched, who wins and why, how sure."""

from __future__ import annotations

import math

from simfrontier.report.phrases import (
    as_percent,
    between,
    device_word,
    listed,
    number,
    percent,
    percent_between,
    quantity,
    tokens_per_second,
)
from simfrontier.tuning import Candidate, OwnPlan, TunedPlan, TuningOutcome

SURE = 0.9  # a winner in fewer samples is too close to call
CLOSE = 1e-3  # of a step: plans nearer than that are as fast
KINDS = (  # of layouts: a colour each
    "whole weights, no grid",
    "weights shared inside a node",
    "weights shared by all",
    "Megatron: tensor",
    "Megatron: stages",
    "Megatron: tensor × stages",
    "AxoNN",
    "AxoNN with stages",
)


def kind_of(candidate: Candidate) -> str:
    """What sort of layout a plan has, one of `KINDS`."""
    piped = int(candidate.value("pipeline")) > 1
    match candidate.family:
        case "axonn":
            return KINDS[7] if piped else KINDS[6]
        case "megatron":
            return KINDS[4 if int(candidate.value("tensor")) == 1 else 5] if piped else KINDS[3]
    return KINDS[{"none": 0, "all": 2}.get(candidate.states.weight, 1)]


def setting_words(outcome: TuningOutcome) -> str:
    """What is tuned: `gpt-neox-20b with a batch of 384 sequences on 384 GCDs of frontier`."""
    here = outcome.scenario.at(outcome.devices)
    unit = "samples" if here.sequence == 1 else "sequences"
    where = f"{outcome.devices:,} {device_word(outcome.scenario.machine)}s of {outcome.scenario.machine.name}"
    return f"{here.shape.name} with a batch of {outcome.batch:,} {unit} on {where}"


def searched_sentence(outcome: TuningOutcome) -> str:
    """How many plans there are, and what became of them; the counts sum to all."""
    return f"{total_words(outcome)}: {', '.join(f'{count:,} {what}' for count, what in fates(outcome))}"


def total_words(outcome: TuningOutcome) -> str:
    """How many plans there are, and of what."""
    return f"{outcome.total:,} {'plans' if outcome.total != 1 else 'plan'} of {setting_words(outcome)}"


def fates(outcome: TuningOutcome) -> list[tuple[int, str]]:
    """What became of the plans of the space, and of how many."""
    simulated = len(outcome.simulated)
    big = outcome.too_big + len(outcome.misfits)
    rest = outcome.total - big - outcome.faulty - outcome.ruled_out - simulated
    counts = [
        (big, "do not fit into memory" if big != 1 else "does not fit into memory"),
        (outcome.faulty, "the library cannot run"),
        (outcome.ruled_out, "cannot be faster than the best"),
        (rest, "only estimated"),
        (simulated, "simulated"),
    ]
    return [(count, what) for count, what in counts if count]


def lead_sentence(outcome: TuningOutcome) -> str:
    """Which plan is best, its step, rate and memory, by how much it leads, and how sure that is."""
    best, *rest = outcome.simulated
    device = device_word(outcome.scenario.machine)
    text = (
        f"{best.candidate.name}: {quantity(best.step_s, 's')} a step, {rate_words(outcome, best)} "
        f"{rate_unit(outcome)}, {quantity(best.peak_bytes, 'bytes')} on the fullest {device}"
    )
    if not rest:
        return f"{text}; no other plan was simulated."
    return f"{text}; {ahead_words(best, rest[0])}{_chance_words(outcome)}."


def ahead_words(best: TunedPlan, other: TunedPlan) -> str:
    """By how much the best leads: `2.9 % faster than ...`, or that both are as fast."""
    lead = other.step_s / best.step_s - 1.0
    if lead < CLOSE:
        return f"as fast as {other.candidate.name}"
    return f"{percent(lead)} faster than the next, {other.candidate.name}"


def _chance_words(outcome: TuningOutcome) -> str:
    chance = outcome.chances[0]
    if chance is None:
        return ""
    often = as_percent(chance, num_samples(outcome))
    if chance >= SURE:
        return f", and the fastest of the simulated plans in {often} of the samples"
    return f"; too close to call: it is the fastest of the simulated plans in {often} of the samples"


def chance_text(outcome: TuningOutcome, place: int) -> str:
    """The chance of a simulated plan to be the fastest of them; empty without samples."""
    chance = outcome.chances[place]
    return "" if chance is None else as_percent(chance, num_samples(outcome))


def num_samples(outcome: TuningOutcome) -> int:
    """How many samples each simulated plan has."""
    simulated = outcome.best.simulated
    return 0 if simulated is None else len(simulated.samples_s)


def tokens_per_s(outcome: TuningOutcome, plan: TunedPlan) -> float:
    """Tokens (of models without a sequence: samples) per second over all devices."""
    return outcome.batch * outcome.scenario.at(outcome.devices).sequence / plan.step_s


def rate_words(outcome: TuningOutcome, plan: TunedPlan) -> str:
    """The same, three digits: 233,000."""
    rate = tokens_per_s(outcome, plan)
    return f"{float(f'{rate:.3g}'):,.0f}" if rate >= 100 else number(rate)


def rate_unit(outcome: TuningOutcome) -> str:
    """`tokens/s`; of models without a sequence `samples/s`."""
    return tokens_per_second(outcome.scenario.at(outcome.devices).sequence)


def band_words(band_s: tuple[float, float, float] | None) -> str:
    """What nine samples of ten lie within: `3.44 to 3.62 s`; empty without samples."""
    if band_s is None:
        return ""
    return between(band_s[0], band_s[2], "s")


def why_sentence(outcome: TuningOutcome) -> str:
    """Why the best is faster than the next of another layout; empty where there is none."""
    return f"{outcome.best.candidate.name} is {outcome.why}." if outcome.why else ""


def errors_sentence(outcome: TuningOutcome) -> str:
    """The errors of the estimates of simulated plans, in time and in memory."""
    steps = [p.simulated.step_s / p.estimate.step_s - 1 for p in outcome.simulated if p.simulated]
    peaks = [p.simulated.peak_bytes / p.estimate.peak_bytes - 1 for p in outcome.simulated if p.simulated]
    count = len(steps)
    plans = f"the {count} simulated plans" if count > 1 else "the simulated plan"
    return (
        f"Against their estimates, the steps of {plans} are {_spread(steps, 'longer', 'shorter')} "
        f"and take {_spread(peaks, 'more', 'less')} memory"
    )


def _spread(shares: list[float], more: str, less: str) -> str:
    """`2.6 to 7.2 % longer`; `1.0 % shorter to 3.0 % longer`."""
    low, high = min(shares), max(shares)
    ends = [percent(abs(low)), percent(abs(high))]
    if low < 0.0 < high and percent(0.0) not in ends:
        return f"{ends[0]} {less} to {ends[1]} {more}"
    word, nearer, farther = (more, low, high) if abs(high) >= abs(low) else (less, high, low)
    if ends[0] == ends[1]:
        return f"{ends[0]} {word}"
    return f"{percent_between(abs(nearer), abs(farther))} {word}"


def headroom_sentence(outcome: TuningOutcome) -> str:
    """How much shorter a step any plan of the space could have: what floors do not rule out."""
    if outcome.headroom <= 0.0:
        return "No plan of the space can have a shorter step: the floors of all that were not simulated are above it"
    return (
        f"No plan of the space can have a step more than {headroom_words(outcome)} shorter: that is the lowest "
        "floor of those that were not simulated"
    )


def headroom_words(outcome: TuningOutcome) -> str:
    """The same as per cent, rounded up: never less than it is."""
    return percent(math.ceil(1e3 * outcome.headroom - 1e-9) / 1e3)


def own_words(outcome: TuningOutcome, own: OwnPlan) -> str:
    """How a plan of the scenario does against the best, or why it was not run."""
    if own.simulated is None:
        return f"not run: {own.why}"
    apart = own.simulated.step_s / outcome.best.step_s - 1.0
    text = "as fast as the best" if abs(apart) < CLOSE else f"{percent(abs(apart))} {_longer(apart)} than the best"
    return text if own.fits else f"does not fit into memory; {text}"


def beaten_sentence(outcome: TuningOutcome) -> str:
    """That plans of the scenario itself are faster than the best that was found; empty where none is."""
    faster = [
        (own.name, own.simulated.step_s)
        for own in outcome.own
        if own.simulated is not None and own.fits and own.simulated.step_s < (1.0 - CLOSE) * outcome.best.step_s
    ]
    if not faster:
        return ""
    text = listed([f"{name} ({quantity(step_s, 's')} a step)" for name, step_s in faster])
    many = len(faster) > 1
    return (
        f"The scenario's own {text} {'are' if many else 'is'} faster still: {'they are' if many else 'it is'} not "
        "among the simulated plans of the space"
    )


def _longer(apart: float) -> str:
    return "longer" if apart > 0.0 else "shorter"


def given_words(outcome: TuningOutcome) -> str:
    """The user's restrictions: pins, and whether plans may lose precision."""
    pins = f"held: {outcome.pins}" if outcome.pins.values else "no dimension is held"
    return f"{pins}; {outcome.loss}"
