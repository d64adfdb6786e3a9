"""Findings of a study, and its files: results.csv, slowdown.csv, findings.json, manifest.json."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

from simfrontier.answers.step import LinkLoad, NodeLinks, band_of
from simfrontier.answers.study import COLUMNS, Cell, Study, inputs, versions
from simfrontier.base.extras import added
from simfrontier.base.wholefile import MANIFEST, write_whole
from simfrontier.core.machine import Machine
from simfrontier.core.trace import write_perfetto
from simfrontier.interfaces.report.headline import headline_of, ranking_of
from simfrontier.interfaces.report.published import published_of
from simfrontier.interfaces.report.sensitivity import variations_of
from simfrontier.interfaces.report.setup import assumptions_of, rank_grids, setup_of
from simfrontier.interfaces.report.slowdown import COLUMNS as SLOWDOWN_COLUMNS, slowdown_of, slowdown_rows
from simfrontier.interfaces.report.view import StudyView

Found = TypeVar("Found")
SLOWDOWN_FILE: Final = "slowdown.csv"
Findings: TypeAlias = Mapping[str, Any]
"""Findings of a study by the names of its page's sections, None where there are none: `setup`, what was
simulated; `rows`, the rows of results by plan; and what is worked out from them."""


def rows_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Cell]]) -> str:
    """Return rows as CSV text with a header: floats in full precision (`repr`), booleans as true or false."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_text(row[column]) for column in columns])
    return out.getvalue()


def _text(cell: Cell) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return repr(cell) if isinstance(cell, int | float) else cell


def manifest(study: Study) -> dict[str, Any]:
    """Return the inputs of a study as digests and versions, without times and absolute paths: the scenario's document
    with all settings, the numbers of machine and library, the versions of the software, and the digest of every
    schedule by plan and size."""
    scenario = study.scenario
    schedules: dict[str, dict[str, str]] = {}
    for outcome in study.outcomes:
        schedules.setdefault(outcome.plan, {})[str(outcome.devices)] = str(outcome.row["schedule_digest"])
    return {
        "scenario": scenario.name,
        "file": Path(scenario.where).name,
        "fidelity": study.fidelity,
        "inputs": inputs(scenario),
        "settings": scenario.document,
        "versions": versions(),
        "schedules": schedules,
    }


def waiting_of(view: StudyView) -> dict[str, dict[str, Any]]:
    """Return by plan the seconds that ranks wait in a step, averaged over the samples, at the largest size; empty if
    devices do not vary in speed. `in_step_s`: extra time of the step (90 % of the samples, with the median);
    `in_calls_s`: by name of a collective call, the mean time that a rank waits in it, overlapped with kernels
    or not, the longest first."""
    found = {}
    for outcome in view.drawn:
        if outcome.waits is not None:
            means = {name: float(each.mean()) for name, each in outcome.waits.in_calls_s.items()}
            in_calls = dict(sorted(means.items(), key=lambda each: -each[1]))
            found[outcome.plan] = {"in_step_s": band_of(outcome.waits.in_step_s), "in_calls_s": in_calls}
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkClassLoad:
    """Load of the directed links of one class in an average node: the number of links (0: the links between groups of
    nodes), their nominal rate, the average bytes per step and utilisation (0 to 1), idle links included, and the
    busiest link."""

    link_class: str
    num_links: int
    bytes_per_s: float
    mean_bytes: float
    mean_utilisation: float
    busiest: LinkLoad | None


def link_loads(view: StudyView) -> dict[str, tuple[LinkClassLoad, ...]]:
    """Return for each plan that fits the load of a node's links, by class of link."""
    machine = view.scenario.machine
    return {
        o.plan: tuple(each for name in machine.link_classes if (each := _load(machine, name, o.links)))
        for o in view.drawn
        if o.links is not None and o.row["fits"]
    }


def _load(machine: Machine, name: str, loads: NodeLinks) -> LinkClassLoad | None:
    links = [link for link in loads.links if link.link_class == name]
    if not links and name not in loads.by_class:
        return None
    carried, busy = loads.by_class.get(name, (0.0, 0.0))
    if links:
        carried = sum(link.num_bytes for link in links) / len(links)
        busy = sum(link.utilisation for link in links) / len(links)
    return LinkClassLoad(
        link_class=name,
        num_links=len(links),
        bytes_per_s=machine.link_classes[name].bytes_per_s,
        mean_bytes=carried,
        mean_utilisation=busy,
        busiest=max(links, key=lambda link: link.utilisation, default=None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Section(Generic[Found]):
    """A section that an extra adds to the page, defined in the extra's module `report_sections`.

    `name`: the section's anchor in the page and key in findings.json; `title`: its title in the table of contents;
    `after`: the name of the section that it follows; `found`: function that returns the section's findings on a study,
    a dataclass of finite numbers, or None if there is nothing to show; `html`: function that renders the section from
    these findings.
    """

    name: str
    title: str
    after: str
    found: Callable[[StudyView], Found | None]
    html: Callable[[StudyView, Found], str]


def sections_found(view: StudyView) -> list[tuple[Section[Any], Any]]:
    """Return the sections of extras that have findings on a study, each with its findings."""
    found = [(section, section.found(view)) for section in added("report_sections", Section)]
    return [(section, what) for section, what in found if what is not None]


def findings_of(view: StudyView) -> Findings:
    """Return the findings of a study: all values that its page shows."""
    return {
        "setup": setup_of(view),
        "rows": view.rows,
        "headline": headline_of(view),
        "probability": ranking_of(view),
        "waiting": waiting_of(view),
        "links": link_loads(view),
        "memory": {o.plan: {kind: held for kind, held in o.at_peak.items() if held} for o in view.drawn},
        "assumptions": assumptions_of(view),
        "published": published_of(view),
        "ranks": rank_grids(view),
        "sensitivity": variations_of(view),
        "slowdown": slowdown_of(view.slowdown),
        "environment": view.environment,
    }


def findings_json(found: Findings, view: StudyView) -> str:
    """Return a study's findings as JSON, in the units that the key names state; findings of extras are under the names
    of their sections, and sizes used as keys become text."""
    document = {**found, **{section.name: one for section, one in sections_found(view)}}
    if found["slowdown"] is None:  # of a scenario that does not ask for it there is no word
        del document["slowdown"]
    return json.dumps(document, default=asdict, separators=(",", ":"), allow_nan=False) + "\n"


def write_study(found: Findings, view: StudyView, folder: Path) -> None:
    """Write the traces, results.csv, slowdown.csv (if components were degraded), findings.json and manifest.json of a
    study. Raises InputError if a file cannot be written."""
    for outcome in view.study.outcomes:
        if outcome.trace is not None:
            write_perfetto(outcome.trace, folder / f"trace-{outcome.plan}-{outcome.devices}.json")
    write_whole(folder / "results.csv", rows_csv(COLUMNS, (outcome.row for outcome in view.study.outcomes)))
    if view.slowdown is not None:
        write_whole(folder / SLOWDOWN_FILE, rows_csv(SLOWDOWN_COLUMNS, slowdown_rows(view.slowdown)))
    write_whole(folder / "findings.json", findings_json(found, view))
    text = json.dumps(manifest(view.study), indent=1, default=str, ensure_ascii=False)
    write_whole(folder / MANIFEST, text + "\n")
