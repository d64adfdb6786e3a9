"""index.html: the whole study on one page that needs no network, for a person to read."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from simfrontier.errors import SimfrontierError
from simfrontier.report.assumptions import assumptions
from simfrontier.report.breakdown import breakdown
from simfrontier.report.files import write_whole
from simfrontier.report.headline import headline
from simfrontier.report.markup import text
from simfrontier.report.memory import memory
from simfrontier.report.published import published
from simfrontier.report.reading import reading
from simfrontier.report.scaling import scaling
from simfrontier.report.sensitivity import sensitivity as sensitivity_section
from simfrontier.report.timeline import timeline
from simfrontier.report.traffic import traffic
from simfrontier.report.view import View
from simfrontier.report.words import in_words, sizes_in_words
from simfrontier.sensitivity import Sensitivity
from simfrontier.study import Study

_HERE = Path(__file__).parent
CONTENTS = {
    "headline": "In short",
    "published": "Published",
    "scaling": "Scaling",
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
        "scaling": scaling(view),
        "time": breakdown(view),
        "sensitivity": sensitivity_section(view, sensitivity),
        "timeline": timeline(view),
        "traffic": traffic(view),
        "memory": memory(view),
        "assumptions": assumptions(view),
        "reading": reading(view),
    }
    links = "".join(f'<a href="#{name}">{CONTENTS[name]}</a>' for name, made in sections.items() if made)
    title = text(study.scenario.file.title)
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">',
            f"<title>{title}: predicted by simfrontier</title>",
            f"<style>\n{_asset('page.css')}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>",
            f'<p class="sub">{text(_subtitle(view))}</p>\n<nav>{links}</nav>\n</header>',
            "<noscript><p>The charts need JavaScript; the tables do not.</p></noscript>\n<main>",
            *(made for made in sections.values() if made),
            "</main>",
            f"<script>{_plotly()}</script>\n<script>\n{_asset('page.js')}</script>\n</body>\n</html>\n",
        ]
    )


def write_page(study: Study, sensitivity: Sensitivity | None, path: Path) -> None:
    """Write the page. Raises InputError where the file cannot be written."""
    write_whole(path, page(study, sensitivity).encode())


def _subtitle(view: View) -> str:
    scenario = view.scenario
    training = scenario.file.training
    model = f"{scenario.shape.name} with {in_words(scenario.shape.num_parameters)} parameters"
    return (
        f"Predicted for {scenario.machine.title} by simulating every operation (scenario {scenario.name}, fidelity "
        f"{view.study.fidelity}): {model}, sequences of {scenario.sequence:,} tokens, micro-batch "
        f"{training.micro_batch} per {view.device}, accumulation {training.grad_accum}, activation checkpointing "
        f"{scenario.file.model.checkpointing}; {len(view.plans)} plans on {sizes_in_words(view.sizes)} "
        f"{view.devices}.{_ills(view)}"
    )


def _ills(view: View) -> str:
    """What the scenario says is wrong with the machine."""
    ill = view.scenario.perturbation
    if ill is None:
        return ""
    slow = [f"{view.device} {device} at {100 * factor:g} % of its speed" for device, factor in ill.slow.items()]
    links = [f"{name} of node {node} at {100 * factor:g} %" for (node, name), factor in ill.links.items()]
    return f" The machine is not well: {', '.join(slow + links)}."


def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _plotly() -> str:
    """plotly.js out of the installed package, which is found without the cost of importing it."""
    found = importlib.util.find_spec("plotly")
    for folder in (found.submodule_search_locations or ()) if found else ():
        source = Path(folder) / "package_data" / "plotly.min.js"
        if source.is_file():
            return source.read_text(encoding="utf-8")
    raise SimfrontierError(
        "the page needs plotly.min.js of the Python package plotly, which is not installed; pip install plotly"
    )
