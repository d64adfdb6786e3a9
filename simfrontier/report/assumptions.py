"""Everything that a prediction rests on: each number with its source, the assumed ones first, and the settings used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from simfrontier.machine import Provenance
from simfrontier.plan import HopOptions, Options
from simfrontier.report.batches import batch, checkpointing, training
from simfrontier.report.markup import paragraph, section, table, text
from simfrontier.report.phrases import exactly, in_words, listed
from simfrontier.report.view import StudyView
from simfrontier.scenario import Scenario
from simfrontier.workload import sizes_of

if TYPE_CHECKING:
    pass

KINDS = {
    "assumed": "no source, a plain value",
    "fitted": "fitted to published measurements",
    "inferred": "worked out from other numbers",
    "measured": "measured by the source",
    "quoted": "stated by the source",
}


def assumptions(view: StudyView) -> str:
    """The section: settings of model, training, engine and plans, then every number of machine and library."""
    return section(
        "assumptions",
        "What this rests on",
        numbers(view.scenario),
        "<h3>Model, training and engine</h3>",
        paragraph("The same for all plans, but for what is said of single ones.", "note"),
        table(["setting", "value"], _settings(view), "words"),
        "<h3>Plans</h3>",
        paragraph(f"As they are on {view.largest:,} {view.devices}.", "note") if len(view.sizes) > 1 else "",
        table(["plan", "options", "rank classes"], _plans(view), "words"),
        paragraph(
            f"Ranks that are alike are simulated once: rank classes are what is left of {view.largest:,} ranks. "
            "Folding them is exact, not an approximation.",
            "note",
        ),
    )


def numbers(scenario: Scenario) -> str:
    """Every number of machine and library with its source, the least certain first."""
    machine, library = scenario.machine, scenario.library
    known = [("machine", p) for p in machine.provenance()] + [("library", p) for p in library.provenance()]
    ranked = list(KINDS)
    known.sort(key=lambda entry: ranked.index(entry[1].kind) if entry[1].kind in ranked else len(ranked))
    counts = {kind: sum(p.kind == kind for _, p in known) for kind in KINDS}
    message = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    words = (
        f"{len(known)} numbers of {machine.title} ({machine.name}) and of the collective library model "
        f"{library.title} ({library.name}): {message}. "
        "What is least certain stands first. Small: the 90 % interval of a fit."
    )
    made = table(["number", "value", "kind", "source"], (_row(part, number) for part, number in known), "words numbers")
    return f"{paragraph(words)}\n{made}"


def fitted_elsewhere(scenario: Scenario) -> str:
    """That the library was fitted on other machines than this one; empty where it was fitted on this one, where its
    file has no machine, with a calibration (whose section has it), and on toys, which cannot be measured."""
    library, machine = scenario.library, scenario.machine.name
    held = machine in library.machines or machine.startswith("toy-")
    if held or not library.machines or scenario.file.library.calibration is not None:
        return ""
    return f"{library.name} was fitted on {listed(library.machines)}; nothing holds it on {machine}"


def _row(part: str, number: Provenance) -> list[str]:
    value = text(f"{number.value:,} entries" if number.unit == "entries" else exactly(number.value, number.unit))
    if number.interval is not None:
        low, high = (exactly(end, number.unit) for end in number.interval)
        value += f"<small>{text(low)} to {text(high)}</small>"
    tag = f'<span class="tag {text(number.kind)}" title="{text(KINDS.get(number.kind, ""))}">{text(number.kind)}</span>'
    return [f"<code>{text(part)}.{text(number.key)}</code>", value, tag, text(number.source)]


def _settings(view: StudyView) -> Iterable[list[str]]:
    scenario = view.scenario
    file = scenario.file
    yield from _models(view)
    if file.model.precision != "fp16":
        yield ["precision", text(f"{file.model.precision}: weights, activations and gradients")]
    yield ["activation checkpointing", text(checkpointing(view))]
    steps = batch(view)
    yield ["training", text(training(view) + (f"; {steps}" if steps else ""))]
    yield from settings_of(scenario, view.study.fidelity, lambda name, value: _otherwise(view, name, value))


def settings_of(
    scenario: Scenario, fidelity: str, more: Callable[[str, object], str] = lambda *_: ""
) -> Iterable[list[str]]:
    """Rows of the settings of all plans: fidelity, placement, engine (with `more` on a key), and what
    is wrong with the machine."""
    file = scenario.file
    yield ["fidelity", text(_FIDELITIES[fidelity])]
    yield ["placement of ranks", text(file.run.placement)]
    for name, value in asdict(file.engine).items():
        yield [f"<code>engine.{text(name)}</code>", text(_written(value) + more(name, value))]
    wrong = file.perturbation
    for slow in wrong.slow:
        yield ["slow device", text(f"device {slow.device} computes at {slow.factor:g} of its speed")]
    for link in wrong.links:
        yield ["degraded link", text(f"node {link.node}, {link.link}: {link.factor:g} of its capacity")]
    if not wrong.slow and not wrong.links:
        yield ["perturbation", "none: every device and link is as good as new"]


def _models(view: StudyView) -> Iterable[list[str]]:
    """The model and its shape, of each size where they differ."""
    several = len(set(view.shapes.values())) > 1
    for size, shape in view.shapes.items() if several else [(view.largest, view.shapes[view.largest])]:
        on = f" on {size:,} {view.devices}" if several else ""
        message = f"{shape.name}: {in_words(shape.num_parameters)} parameters; source: {shape.source}"
        yield [f"model{on}", text(message)]
        yield [f"shape{on}", text(", ".join(f"{name} {getattr(shape, name):,}" for name in sizes_of(shape)))]


def _otherwise(view: StudyView, name: str, value: object) -> str:
    """What plans with an engine of their own have instead, at the largest size."""
    own: dict[object, list[str]] = {}
    for plan in view.plans:
        value_of_plan = getattr(view.cases[plan, view.largest].engine, name)
        if value_of_plan != value:
            own.setdefault(value_of_plan, []).append(plan)
    return "".join(f"; {listed(plans)}: {_written(value_of_plan)}" for value_of_plan, plans in own.items())


_FIDELITIES: Mapping[str, str] = {
    "flow": "flow: operations share links and memory at max-min fair rates, kernels the units that collectives leave",
    "chunk": "chunk: every message is simulated, links serve them in the order in which they come",
    "analytic": "analytic: every operation takes its time alone, nothing is shared",
}


def _plans(view: StudyView) -> Iterable[list[str]]:
    classes = {outcome.plan: outcome.row["rank_classes"] for outcome in view.drawn}
    for name in view.scenario.plans:
        options = view.cases[name, view.largest].options.in_precision(view.scenario.precision.model)
        yield [text(name), text(_listed(options)), text(classes.get(name, "–"))]


def _listed(options: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{key} {_written(value)}" for key, value in options if value is not None)


def _written(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case Options():
            more = _listed((key, given) for key, given in value if key != "family")
            return f"{value.family} ({more})" if more else value.family
        case HopOptions():
            return f"({_listed(value)})"
        case tuple():
            return "(" + ", ".join(map(_written, value)) + ")"
        case _:
            return str(value)
