"""index.html: the whole study on one page that needs no network, for a person to read."""

from __future__ import annotations

from pathlib import Path

from simfrontier.report.assumptions import assumptions, fitted_elsewhere
from simfrontier.report.batches import batch, checkpointing, models, training
from simfrontier.report.earlier import earlier
from simfrontier.report.figures.breakdown import PARTS, step_bars
from simfrontier.report.figures.memory import areas
from simfrontier.report.figures.traffic import PARTS as TRAFFIC_PARTS, traffic_bars
from simfrontier.report.findings.breakdown import breakdown_of
from simfrontier.report.findings.compression import compression_of
from simfrontier.report.findings.headline import headline_of
from simfrontier.report.findings.memory import memory_use
from simfrontier.report.findings.traffic import traffic_of
from simfrontier.report.node import drawing, key
from simfrontier.report.phrases import sizes_in_words
from simfrontier.report.pipeline import pipeline
from simfrontier.report.probability import probability
from simfrontier.report.published import published
from simfrontier.report.ranks import ranks
from simfrontier.report.reading import reading
from simfrontier.report.render import as_html, render, whole_page
from simfrontier.report.scaling import scaling
from simfrontier.report.sections import with_added
from simfrontier.report.sensitivity import sensitivity as sensitivity_section
from simfrontier.report.theme import MEMORY_COLOURS
from simfrontier.report.timeline import timeline
from simfrontier.report.view import Searches, StudyView
from simfrontier.sensitivity import Sensitivity
from simfrontier.study import Study
from simfrontier.wholefile import write_whole

CONTENTS = {
    "headline": "In short",
    "published": "Published",
    "compression": "Compression",
    "earlier": "What changed",
    "ranks": "Ranks",
    "scaling": "Scaling",
    "probability": "How sure",
    "time": "Time",
    "sensitivity": "Sensitivity",
    "pipeline": "Pipelines",
    "timeline": "Timeline",
    "traffic": "Traffic",
    "memory": "Memory",
    "assumptions": "Assumptions",
    "reading": "How to read",
}
BOUNDARIES = ("package", "intra_node", "inter_node")
SCALE_ENDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)  # of the utilisation of links


def page(study: Study, sensitivity: Sensitivity | None, searches: Searches | None = None) -> str:
    """The page as text; the same study gives the same text. `searches`: the candidates that were compared for plans
    that leave options open, by plan and size."""
    view = StudyView(study=study, searches=searches or {})
    sections = {
        "headline": headline(view),
        "published": published(view, sensitivity),
        "compression": compression(view),
        "earlier": earlier(view),
        "ranks": ranks(view),
        "scaling": scaling(view),
        "probability": probability(view),
        "time": _breakdown(view),
        "sensitivity": sensitivity_section(view, sensitivity),
        "pipeline": pipeline(view),
        "timeline": timeline(view),
        "traffic": _traffic(view),
        "memory": _memory(view),
        "assumptions": assumptions(view),
        "reading": reading(view),
    }
    title = study.scenario.file.title
    contents, with_extras = with_added(CONTENTS, sections, view)
    return whole_page(title, f"{title}: predicted by simfrontier", _subtitle(view), contents, with_extras)


def write_page(study: Study, sensitivity: Sensitivity | None, path: Path, searches: Searches | None = None) -> None:
    """Write the page. Raises InputError where the file cannot be written."""
    write_whole(path, page(study, sensitivity, searches))


def headline(view: StudyView) -> str:
    """The first section: which plan is fastest, key numbers, and what holds the others back."""
    return render("sections/headline.html.j2", found=headline_of(view), marks=view.marks)


def compression(view: StudyView) -> str:
    """The section on compressed messages, or nothing where no plan compresses or widens its messages."""
    found = compression_of(view)
    return "" if found is None else render("sections/compression.html.j2", found=found, marks=view.marks)


def _breakdown(view: StudyView) -> str:
    found = breakdown_of(view)
    figures = {f"{size:,}": step_bars(found.steps[size]) for size in reversed(view.sizes)}
    return render("sections/breakdown.html.j2", found=found, figures=figures, parts=PARTS, marks=view.marks)


def _memory(view: StudyView) -> str:
    found = memory_use(view)
    figures = {o.plan: areas(o.memory, found.capacity_bytes) for o in view.drawn if o.memory is not None}
    held = {kind for peak in found.peaks for kind in peak.held_bytes}
    kinds = [*(kind for kind in MEMORY_COLOURS if kind in held), *sorted(held - set(MEMORY_COLOURS))]
    fastest = view.ranked[0].plan if view.ranked else None
    return render(
        "sections/memory.html.j2",
        found=found,
        figures=figures,
        shown=fastest if fastest in figures else None,
        kinds={kind: MEMORY_COLOURS.get(kind, MEMORY_COLOURS["other"]) for kind in kinds},
        marks=view.marks,
    )


def _traffic(view: StudyView) -> str:
    found, machine = traffic_of(view), view.scenario.machine
    loads = {o.plan: o.links for o in view.drawn if o.links is not None and o.row["fits"]}
    fullest = max((link.utilisation for links in loads.values() for link in links.links), default=0.0)
    full = next((end for end in SCALE_ENDS if fullest <= end), max(fullest, 1.0))
    titles = {plan: f"Node of {machine.title}: utilisation of links by {plan}" for plan in loads}
    return render(
        "sections/traffic.html.j2",
        found=found,
        figure=traffic_bars(found),
        parts={
            part: TRAFFIC_PARTS[part]
            for part in TRAFFIC_PARTS
            if part in BOUNDARIES or any(plan.sent_bytes[part] for plan in found.plans)
        },
        drawings={plan: as_html(drawing(machine, links, full, titles[plan])) for plan, links in loads.items()},
        key=as_html(key(full)),
        shown=view.ranked[0].plan if view.ranked else None,
        left_out=[o.plan for o in view.drawn if o.plan not in loads],
        marks=view.marks,
    )


def _subtitle(view: StudyView) -> str:
    scenario = view.scenario
    given = f"{steps}; " if scenario.file.training.batch is not None and (steps := batch(view)) else ""
    return (
        f"Predicted for {scenario.machine.title} by simulating every operation (scenario {scenario.name}, fidelity "
        f"{view.study.fidelity}): {models(view)}, {view.shapes[view.largest].sample}; {given}{training(view)}; "
        f"activation checkpointing {checkpointing(view)}; {_plans(view)} on {sizes_in_words(view.sizes)} "
        f"{view.devices}.{_machine_size_text(view)}{_perturbations(view)}"
    )


def _plans(view: StudyView) -> str:
    return f"{len(view.plans)} plans" if len(view.plans) > 1 else "1 plan"


def _machine_size_text(view: StudyView) -> str:
    """Which calibration is in force, or that the library was never compared with this machine."""
    calibration = view.scenario.file.library.calibration
    if calibration is not None:
        return f" Calibrated by {Path(calibration).name}."
    elsewhere = fitted_elsewhere(view.scenario)
    return f" {elsewhere}." if elsewhere else ""


def _perturbations(view: StudyView) -> str:
    """The scenario's slow devices and links."""
    ill = view.scenario.perturbation
    if ill is None:
        return ""
    slow = [f"{view.device} {device} at {100 * factor:g} % of its speed" for device, factor in ill.slow.items()]
    links = [f"{name} of node {node} at {100 * factor:g} %" for (node, name), factor in ill.links.items()]
    return f" The machine is not well: {', '.join(slow + links)}."
