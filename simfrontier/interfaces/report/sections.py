"""Sections that extras add to the page of a study and to its findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from simfrontier.base.extras import added
from simfrontier.interfaces.report.render import as_html
from simfrontier.interfaces.report.view import StudyView

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section(Generic[Found]):
    """A section of an extra, by its module `report_sections`.

    `name`: its anchor in the page, and its key in findings.json; `title`: in the contents; `after`: the name of the
    section that it follows; `found`: what it says of a study, a dataclass of finite numbers, or None where that is
    nothing; `html`: the section with these findings.
    """

    name: str
    title: str
    after: str
    found: Callable[[StudyView], Found | None]
    html: Callable[[StudyView, Found], str]


def sections_found(view: StudyView) -> list[tuple[Section[Any], Any]]:
    """The sections of extras that have something to say of a study, and what."""
    found = [(section, section.found(view)) for section in added("report_sections", Section)]
    return [(section, what) for section, what in found if what is not None]


def with_added(
    contents: Mapping[str, str], sections: Mapping[str, str], view: StudyView
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The titles and the HTML of a page's sections, with those of extras behind what they follow."""
    for section, found in sections_found(view):
        contents = _put(contents, section, section.title)
        sections = _put(sections, section, as_html(section.html(view, found)))
    return contents, sections


def _put(texts: Mapping[str, str], section: Section[Any], own: str) -> Mapping[str, str]:
    assert section.after in texts, f"{section.name} follows {section.after}, which is no section"
    place = list(texts).index(section.after) + 1
    return dict([*list(texts.items())[:place], (section.name, own), *list(texts.items())[place:]])
