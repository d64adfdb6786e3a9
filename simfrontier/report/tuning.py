"""The page of a search: the best plan and why, memory against time, how sure the order is, and what was searched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from simfrontier.report.assumptions import fitted_elsewhere, numbers, settings_of
from simfrontier.report.ending import how_to_read
from simfrontier.report.figures.breakdown import PARTS
from simfrontier.report.figures.explanation import colours_of, parts_figure
from simfrontier.report.findings.explanation import shown_parts
from simfrontier.report.markup import cards, items, keyed, paragraph, plot, section, table, text
from simfrontier.report.phrases import device_word, in_words, percent, quantity, signed
from simfrontier.report.probability import sources_of
from simfrontier.report.render import whole_page
from simfrontier.report.tuning_figures import COLOURS, against_estimates, order, parts, scatter
from simfrontier.report.tuning_text import (
    band_words,
    beaten_sentence,
    chance_text,
    errors_sentence,
    fates,
    given_words,
    headroom_sentence,
    headroom_words,
    kind_of,
    lead_sentence,
    num_samples,
    own_words,
    rate_unit,
    rate_words,
    searched_sentence,
    setting_words,
    total_words,
    why_sentence,
)
from simfrontier.tuning import DIMENSIONS, SLACK, Candidate, TunedPlan, TuningOutcome, Value, written
from simfrontier.wholefile import write_whole
from simfrontier.workload import sizes_of

CONTENTS = {
    "headline": "In short",
    "front": "Memory against time",
    "sure": "How sure",
    "time": "Where time goes",
    "why": "Why",
    "plans": "Plans",
    "space": "The space",
    "assumptions": "Assumptions",
    "reading": "How to read",
}
LEAST = 5e-4  # of a step: less is 0.0 %
_MEANINGS = {
    "simulated": "Every op of the step was simulated on the machine's links, memory and compute units, with what runs "
    "beside it.",
    "estimated": "A closed form out of small schedules, in which nothing shares a link. Only what looked best by its "
    "estimate was simulated.",
    "floor": "What no order of a plan's ops can beat: its simulated step is never below it. A plan with a floor above "
    "a simulated step cannot win.",
    "Pareto front": "Plans than which none is both faster and smaller. Where one is only estimated, its place may "
    "move when it is simulated.",
    "without errors": "The step as the models say it, all devices typical. Plans are ranked by it.",
    "nine samples of ten": "Each step is worked out again many times, with the errors of the models drawn anew, the "
    "same draws for all plans; nine of ten results lie within. A step waits for the slowest of all devices: with many "
    "of them, samples are longer than the step without errors.",
    "chance": "The share of the samples in which the plan is the fastest of those simulated.",
    "micro-batch": "Sequences of a data-parallel rank in one micro-batch; how many of them make a step follows from "
    "the batch.",
    "keeping activations": "Activations of the forward stay in memory until the backward; recomputing does not keep "
    "them, and computes each layer's forward again.",
    "states (zero1, node/node/all ...)": "Who shares weights / gradients / optimizer: none (everybody has all), the "
    "ranks of a package, of a node, or all. ddp, zero1, zero2, zero3 and hsdp are names of such points.",
}


def tuning_page(outcome: TuningOutcome) -> str:
    """The page as text; the same outcome gives the same text."""
    sections = {
        "headline": _headline(outcome),
        "front": _front(outcome),
        "sure": _sure(outcome),
        "time": _time(outcome),
        "why": _why(outcome),
        "plans": _plans(outcome),
        "space": _space(outcome),
        "assumptions": _assumptions(outcome),
        "reading": how_to_read(_MEANINGS),
    }
    heading = f"The best plan for {outcome.devices:,} {_devices(outcome)}"
    title = outcome.scenario.file.title
    return whole_page(heading, f"{title}: {heading}", _subtitle(outcome), CONTENTS, sections)


def write_tuning_page(outcome: TuningOutcome, path: Path) -> None:
    """Write the page. Raises InputError where the file cannot be written."""
    write_whole(path, tuning_page(outcome))


def _devices(outcome: TuningOutcome) -> str:
    return f"{device_word(outcome.scenario.machine)}s"


def _subtitle(outcome: TuningOutcome) -> str:
    scenario = outcome.scenario
    elsewhere = fitted_elsewhere(scenario)
    return (
        f"{scenario.file.title}: {setting_words(outcome)}, searched by simfrontier (scenario {scenario.name}, fidelity "
        f"{scenario.file.run.fidelity}); {given_words(outcome)}.{f' {elsewhere}.' if elsewhere else ''}"
    )


def _headline(outcome: TuningOutcome) -> str:
    beaten = beaten_sentence(outcome)
    best, capacity = outcome.best, outcome.scenario.machine.device.hbm_bytes
    band = band_words(best.simulated.band_s) if best.simulated else ""
    shown = [
        (quantity(best.step_s, "s"), "a step", f"nine samples of ten: {band}" if band else "no samples"),
        (rate_words(outcome, best), rate_unit(outcome), f"over {outcome.devices:,} {_devices(outcome)}"),
        (quantity(best.peak_bytes, "bytes"), "memory", f"of {quantity(capacity, 'bytes')}, on the fullest"),
        (f"{outcome.total:,}", "plans searched", f"{len(outcome.simulated):,} simulated"),
        (f"≤ {headroom_words(outcome)}", "left to gain", "by the lowest floor of the others"),
    ]
    if chance := chance_text(outcome, 0):
        shown.insert(1, (chance, "chance to be the fastest", f"in {num_samples(outcome):,} samples"))
    return section(
        "headline",
        "In short",
        paragraph(lead_sentence(outcome), "lead"),
        paragraph(f"{beaten}.", "callout") if beaten else "",
        paragraph(f"Why: {why_sentence(outcome)}") if outcome.why else "",
        cards(shown),
        paragraph(f"{searched_sentence(outcome)}."),
    )


def _front(outcome: TuningOutcome) -> str:
    rows = [
        [
            _keyed(plan.candidate),
            quantity(plan.step_s, "s"),
            signed(plan.step_s / outcome.best.step_s - 1) if plan is not outcome.best else "",
            quantity(plan.peak_bytes, "bytes"),
            "simulated" if plan.simulated is not None else "estimated",
        ]
        for plan in outcome.front()
    ]
    device = device_word(outcome.scenario.machine)
    more = ""
    if outcome.passed_over:
        more += f" {len(outcome.passed_over):,} plans were ruled out before they were estimated: they are not drawn."
    if any(plan.peak_bytes > outcome.scenario.machine.device.hbm_bytes for plan in outcome.estimated):
        more += (
            f" What is estimated to be up to {percent(SLACK - 1)} above the memory of a {device} is kept: estimates of "
            "memory are not exact, and may be a third too low where buffers pile up behind communication."
        )
    return section(
        "front",
        "Memory against time",
        paragraph(
            f"Every plan that may fit, by the time of its step and the memory of the fullest {device}. Filled: "
            "simulated, with a bar that nine samples of ten lie within. Hollow: estimated. Stars: the scenario's own "
            f"plans. The grey line is the Pareto front: below and left of it there is no plan of those drawn.{more}"
        ),
        paragraph("Point at a mark for its name; double-click for all of them, drag to zoom in.", "note"),
        plot("fig-front", {"all": scatter(outcome)}, "Memory against the time of a step, for every plan that fits"),
        "<h3>The Pareto front</h3>",
        table(["plan", "step", "against the best", "memory", "known"], rows, "plans"),
    )


def _sure(outcome: TuningOutcome) -> str:
    samples = num_samples(outcome)
    message = [
        paragraph(
            f"Every simulated step was worked out {samples:,} more times, each time with the errors of the models "
            "drawn anew, the same draws for all plans. At the right: the share of the samples in which a plan is the "
            "fastest. Colours as above. The errors, as standard deviations:"
        ),
        items(text(each) for each in sources_of(outcome.scenario)),
    ]
    if not samples:
        message = [paragraph("There are no error bars: the scenario asks for no samples, or no error is known.")]
    return section(
        "sure",
        "How sure is the order",
        *message,
        plot(
            "fig-order", {"all": order(outcome)}, "Steps of the simulated plans and what nine samples of ten lie within"
        ),
        "<h3>What was not simulated</h3>",
        paragraph(f"{errors_sentence(outcome)}. {headroom_sentence(outcome)}. {_ruled_words(outcome)}"),
        plot("fig-estimates", {"all": against_estimates(outcome)}, "Simulated against estimated steps"),
    )


def _ruled_words(outcome: TuningOutcome) -> str:
    open_ = sum(plan.estimate.floor_s <= outcome.best.step_s for plan in outcome.estimated)
    if not open_:
        return "Every plan that was not simulated has a floor above the best step: none of them can be faster."
    several = f"{open_:,} plans were" if open_ > 1 else "1 plan was"
    return (
        f"{outcome.ruled_out:,} plans cannot be faster than the best, as their floors say; {several} not simulated "
        "only because of the estimate (--simulate takes more)."
    )


def _time(outcome: TuningOutcome) -> str:
    return section(
        "time",
        "Where the time goes",
        paragraph(
            "On the critical rank of each simulated plan, the one that ends last. A moment belongs to compute if a "
            "kernel runs; otherwise to the farthest communication that the rank is in or waits for; otherwise to "
            "encoding and reordering; otherwise it is idle (in a pipeline, that is the bubble)."
        ),
        plot("fig-time", {"all": parts(outcome)}, "Time of a step by what it is spent on, per simulated plan"),
    )


def _why(outcome: TuningOutcome) -> str:
    colours = colours_of([outcome.path])
    step_s = outcome.path.step_s
    rows = [
        [
            text(part.words),
            quantity(part.seconds, "s"),
            percent(part.seconds / step_s),
            quantity(part.sharing_s, "s"),
            f"{part.calls:,}",
        ]
        for part in shown_parts(outcome.path.parts())
    ]
    rows.append(["<b>the step</b>", f"<b>{quantity(step_s, 's')}</b>", percent(1.0), "", ""])
    return section(
        "why",
        "Why the best wins",
        paragraph(why_sentence(outcome), "callout") if outcome.why else "",
        paragraph(
            f"The critical path of {outcome.best.candidate.name}: what the step's end waited for, op after op. The "
            "parts sum to the step; what runs beside them is hidden."
        ),
        plot(
            "fig-path", {"best": parts_figure({"best": outcome.path}, colours)}, "The best plan's critical path by part"
        ),
        table(["part", "time", "of the step", "by sharing", "ops"], rows, "named"),
        paragraph("simfrontier explain best.toml --plan best says what would help it most.", "note"),
    )


def _plans(outcome: TuningOutcome) -> str:
    heads = ["plan", "step", "chance", "memory", "estimated step", *_part_heads(outcome)]
    own = [
        [
            text(each.name),
            quantity(each.simulated.step_s, "s") if each.simulated else "–",
            quantity(each.simulated.peak_bytes, "bytes") if each.simulated else "–",
            f"<span{'' if each.fits else ' class=no'}>{text(own_words(outcome, each))}</span>",
        ]
        for each in outcome.own
    ]
    return section(
        "plans",
        "The simulated plans",
        table(heads, _plan_rows(outcome), "plans"),
        "<h3>The scenario's own plans</h3>" + table(["plan", "step", "memory", ""], own, "words") if own else "",
        "<h3>Simulated, and too big</h3>" + items(map(_misfit, outcome.misfits)) if outcome.misfits else "",
        paragraph("results.csv has all plans, best.toml the best three as a scenario.", "note"),
    )


def _part_heads(outcome: TuningOutcome) -> list[str]:
    return [keyed(part.colour, part.short) for key, part in PARTS.items() if _has(outcome, key)]


def _has(outcome: TuningOutcome, part: str) -> bool:
    """Whether any plan has as much of a part that a table shows it."""
    simulated = [plan.simulated for plan in outcome.simulated if plan.simulated is not None]
    return any(one.parts[part] >= LEAST * one.step_s for one in simulated)


def _plan_rows(outcome: TuningOutcome) -> Iterator[list[str]]:
    for place, plan in enumerate(outcome.simulated):
        assert plan.simulated is not None
        step_s, band = plan.simulated.step_s, band_words(plan.simulated.band_s)
        yield [
            keyed(COLOURS[kind_of(plan.candidate)], f"{place + 1}. {plan.candidate.name}"),
            quantity(step_s, "s") + (f"<small>{text(band)}</small>" if band else ""),
            chance_text(outcome, place) or "–",
            quantity(plan.simulated.peak_bytes, "bytes"),
            quantity(plan.estimate.step_s, "s"),
            *(percent(plan.simulated.parts[part] / step_s) for part in PARTS if _has(outcome, part)),
        ]


def _misfit(plan: TunedPlan) -> str:
    return text(f"{plan.candidate.name}: {quantity(plan.peak_bytes, 'bytes')}")


def _keyed(candidate: Candidate) -> str:
    return keyed(COLOURS[kind_of(candidate)], candidate.name)


def _space(outcome: TuningOutcome) -> str:
    known = [plan.candidate for plan in (*outcome.plans, *outcome.misfits)]
    known += [out.candidate for out in outcome.passed_over]
    rows = [
        [
            f"<code>{text(name)}</code>" + ("<small>held</small>" if name in outcome.pins.values else ""),
            text(dimension.description),
            ", ".join(f"<code>{text(written(value))}</code>" for value in _ordered({c.value(name) for c in known})),
        ]
        for name, dimension in DIMENSIONS.items()
    ]
    return section(
        "space",
        "What was searched",
        paragraph(f"{_capital(given_words(outcome))}. {total_words(outcome)}:"),
        items(text(f"{count:,} {what}") for count, what in fates(outcome)),
        paragraph("Dimensions, and their values among the plans that are not too big:"),
        table(["dimension", "what it says", "values"], rows, "words"),
        paragraph(
            "--pin dimension=value,value holds one; --lossy allows plans that send fewer bits, --max-error also "
            "compressed activations, within a bound.",
            "note",
        ),
    )


def _ordered(values: Iterable[Value]) -> list[Value]:
    return sorted(
        values, key=lambda value: (isinstance(value, str), value if isinstance(value, int) else 0, str(value))
    )


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _assumptions(outcome: TuningOutcome) -> str:
    scenario = outcome.scenario.at(outcome.devices)
    shape = scenario.shape
    rows = [
        ["model", text(f"{shape.name}: {in_words(shape.num_parameters)} parameters; source: {shape.source}")],
        ["shape", text(", ".join(f"{name} {getattr(shape, name):,}" for name in sizes_of(shape)))],
        ["precision", text(f"{scenario.file.model.precision}: weights, activations and gradients")],
        ["batch", text(f"{outcome.batch:,} sequences a step, whatever the plan")],
        *settings_of(scenario, scenario.file.run.fidelity),
    ]
    return section(
        "assumptions",
        "What this rests on",
        numbers(scenario),
        "<h3>Model and engine</h3>",
        paragraph("The same for all plans.", "note"),
        table(["setting", "value"], rows, "words"),
    )
