"""index.html: the whole study on one page that needs no network, for a person to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfrontier.answers.study import Study
from simfrontier.base.wholefile import write_whole
from simfrontier.interfaces.report import study_sections as values
from simfrontier.interfaces.report.findings.study import Findings, findings_of
from simfrontier.interfaces.report.render import page_of, render
from simfrontier.interfaces.report.sections import with_added
from simfrontier.interfaces.report.view import Searches, StudyView

if TYPE_CHECKING:
    from simfrontier.answers.experiments import Sensitivity


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySection:
    """A section of the page of a study: its title, and the values of its template, `sections/NAME.html.j2`; None of
    them: the study has no such section."""

    title: str
    values: Callable[[Findings, StudyView], Mapping[str, Any] | None]


SECTIONS: Mapping[str, StudySection] = {
    "headline": StudySection(title="Summary", values=values.headline),
    "time": StudySection(title="Step time", values=values.step_time),
    "timeline": StudySection(title="Timeline", values=values.timeline),
    "links": StudySection(title="Links", values=values.links),
    "memory": StudySection(title="Memory", values=values.memory),
    "traffic": StudySection(title="Traffic", values=values.traffic),
    "published": StudySection(title="Published", values=values.published),
    "compression": StudySection(title="Compression", values=values.compression),
    "scaling": StudySection(title="Scaling", values=values.scaling),
    "pipeline": StudySection(title="Pipelines", values=values.pipeline),
    "ranks": StudySection(title="Ranks", values=values.ranks),
    "probability": StudySection(title="Ranking", values=values.ranking),
    "sensitivity": StudySection(title="Sensitivity", values=values.sensitivity),
    "slowdown": StudySection(title="Degraded components", values=values.slowdown),
    "environment": StudySection(title="Stack and library", values=values.environment),
    "assumptions": StudySection(title="Assumptions", values=values.assumptions),
}


def page(study: Study, sensitivity: Sensitivity | None = None, searches: Searches | None = None) -> str:
    """Return the page as text; the same study gives the same text. `searches`: the candidates that were compared for
    plans that leave options open, by plan and size."""
    view = StudyView(study=study, sensitivity=sensitivity, searches=searches or {})
    return study_page(findings_of(view), view)


def write_page(found: Findings, view: StudyView, path: Path) -> None:
    """Write the page of a study's findings. Raises InputError where the file cannot be written."""
    write_whole(path, study_page(found, view))


def study_page(found: Findings, view: StudyView) -> str:
    """Return the page of a study's findings, with the sections of extras."""
    sections = {name: section(name, found, view) for name in SECTIONS}
    contents, with_extras = with_added({name: one.title for name, one in SECTIONS.items()}, sections, view)
    return page_of("run", setup=found["setup"], scenario=view.scenario, contents=contents, made=with_extras)


def section(name: str, found: Findings, view: StudyView) -> str:
    """Return a section as HTML, empty where the study has none.

    Every template is given the study's `view`, `setup` and `rows` (those of the largest size as `largest`), the word
    for a device, the sizes and the largest of them, the fastest plan (`shown`), whether devices differ in speed, the
    unit of rates, and the colours of the plans."""
    known = SECTIONS[name].values(found, view)
    if not known:
        return ""
    common = {
        "view": view,
        "scenario": view.scenario,
        "setup": found["setup"],
        "rows": view.rows,
        "largest": view.rows_at(view.largest),
        "device": view.device,
        "sizes": view.sizes,
        "size": view.largest,
        "shown": view.ranked[0].plan if view.ranked else None,
        "differ": bool(view.scenario.machine.device.speed_sd),
        "marks": view.marks,
        "unit": view.rate_unit,
    }
    return render("section.html.j2", name=name, title=SECTIONS[name].title, **(common | dict(known)))
