"""index.html: the whole study on one page that needs no network, for a person to read."""

from __future__ import annotations

from pathlib import Path

from simfrontier.report.assumptions import assumptions, fitted_elsewhere
from simfrontier.report.breakdown import breakdown
from simfrontier.report.earlier import earlier
from simfrontier.report.headline import headline
from simfrontier.report.memory import memory
from simfrontier.report.probability import probability
from simfrontier.report.published import published
from simfrontier.report.reading import reading
from simfrontier.report.scaling import scaling
from simfrontier.report.sensitivity import sensitivity as sensitivity_section
from simfrontier.report.shell import whole_page
from simfrontier.report.timeline import timeline
from simfrontier.report.traffic import traffic
from simfrontier.report.view import View
from simfrontier.report.words import in_words, sizes_in_words
from simfrontier.sensitivity import Sensitivity
from simfrontier.study import Study
from simfrontier.wholefile import write_whole
from simfrontier.workload import MlpShape, Shape

CONTENTS = {
    "headline": "In short",
    "published": "Published",
    "earlier": "What changed",
    "scaling": "Scaling",
    "probability": "How sure",
    "time": "Time",
    "sensitivity": "Sensitivity",
    "timeline": "Timeline",
    "traffic": "Traffic",
    "memory": "Memory",
    "assumptions": "Assumptions",
    "reading": "How to read",
}


def page(study: Study, sensitivity: Sensitivity | None) -> str:
    """The page as text; the same study gives the same text."""
    view = View(study=study)
    sections = {
        "headline": headline(view),
        "published": published(view, sensitivity),
        "earlier": earlier(view),
        "scaling": scaling(view),
        "probability": probability(view),
        "time": breakdown(view),
        "sensitivity": sensitivity_section(view, sensitivity),
        "timeline": timeline(view),
        "traffic": traffic(view),
        "memory": memory(view),
        "assumptions": assumptions(view),
        "reading": reading(view),
    }
    title = study.scenario.file.title
    return whole_page(title, f"{title}: predicted by simfrontier", _subtitle(view), CONTENTS, sections)


def write_page(study: Study, sensitivity: Sensitivity | None, path: Path) -> None:
    """Write the page. Raises InputError where the file cannot be written."""
    write_whole(path, page(study, sensitivity))


def _subtitle(view: View) -> str:
    scenario = view.scenario
    training = scenario.file.training
    model = f"{scenario.shape.name} with {in_words(scenario.shape.num_parameters)} parameters"
    return (
        f"Predicted for {scenario.machine.title} by simulating every operation (scenario {scenario.name}, fidelity "
        f"{view.study.fidelity}): {model}, {_samples(scenario.shape)}, micro-batch "
        f"{training.micro_batch} per {view.device}, accumulation {training.grad_accum}, activation checkpointing "
        f"{scenario.file.model.checkpointing}; {len(view.plans)} plans on {sizes_in_words(view.sizes)} "
        f"{view.devices}.{_held(view)}{_ills(view)}"
    )


def _samples(shape: Shape) -> str:
    """What one sample of the model is."""
    if isinstance(shape, MlpShape):
        return f"samples of {shape.inputs:,} features"
    return f"sequences of {shape.sequence:,} tokens"


def _held(view: View) -> str:
    """Which calibration is in force, or that the library was never held against this machine."""
    calibration = view.scenario.file.library.calibration
    if calibration is not None:
        return f" Calibrated by {Path(calibration).name}."
    elsewhere = fitted_elsewhere(view.scenario)
    return f" {elsewhere}." if elsewhere else ""


def _ills(view: View) -> str:
    """What the scenario says is wrong with the machine."""
    ill = view.scenario.perturbation
    if ill is None:
        return ""
    slow = [f"{view.device} {device} at {100 * factor:g} % of its speed" for device, factor in ill.slow.items()]
    links = [f"{name} of node {node} at {100 * factor:g} %" for (node, name), factor in ill.links.items()]
    return f" The machine is not well: {', '.join(slow + links)}."
