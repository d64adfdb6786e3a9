"""All pages: sections in order and linked, nothing loaded from outside, valid charts, names that are text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from plotly.graph_objects import Figure

from simfrontier.interfaces.report.crosscheck import crosscheck_page
from simfrontier.interfaces.report.measured import validation_page
from simfrontier.interfaces.report.sweep_page import write_sweep_page
from simfrontier.interfaces.report.tuning_page import tuning_page
from tests.answers.search.toys import toy_tuning
from tests.interfaces.report.studies import page
from tests.interfaces.report.sweeps import made_up, refused, write
from tests.interfaces.report.test_crosscheck import AGREE, DROPPED, SLOW
from tests.interfaces.report.test_page import CASES as STUDIES, Page, figures_of
from tests.interfaces.report.test_validation import CASES as VALIDATIONS

EVIL = '<script>alert("1 & 2")</script>'


def swept() -> str:
    """The page of a sweep all of whose names look like markup."""
    rows = [made_up(0, {EVIL: EVIL}, scenario=EVIL, plan=EVIL), made_up(1, {EVIL: "b"}), refused(2, {EVIL: "c"}, EVIL)]
    with TemporaryDirectory() as name:
        folder = write(Path(name) / "of", rows, title=EVIL, scenarios={EVIL: {}}, set={EVIL: EVIL}, file=EVIL)
        write_sweep_page(folder)
        return (folder / "index.html").read_text(encoding="utf-8")


MAKE: dict[str, Callable[[], str]] = {
    **{f"study: {name}": lambda case=case: page(*case()) for name, case in STUDIES.items()},  # type: ignore[misc]
    **{f"validation: {name}": partial(validation_page, done) for name, done in VALIDATIONS.items()},
    "crosscheck: agree": partial(crosscheck_page, AGREE),
    "crosscheck: slow": partial(crosscheck_page, SLOW),
    "crosscheck: dropped": partial(crosscheck_page, DROPPED),
    "tuning": lambda: tuning_page(toy_tuning()),
    "sweep": swept,
}
SECTIONS = {  # before the one on how to read the page
    "validation: held": "headline bounds tables agreement errors sizes worst training pathologies unknown sources",
    "validation: bare": "headline tables agreement errors sizes worst",
    "crosscheck: agree": "headline steps calls timelines deltas measured",
    "crosscheck: dropped": "headline differences steps calls timelines deltas measured",
    "tuning": "headline front sure time why plans space assumptions",
    "sweep": "headline swept best parallel front",
}


@cache
def text_of(name: str) -> str:
    return MAKE[name]()


@pytest.fixture(params=list(MAKE))
def read(request: pytest.FixtureRequest) -> Page:
    return Page(text_of(request.param))


@pytest.mark.parametrize("name", SECTIONS)
def test_sections_stand_in_order_and_are_linked(name: str) -> None:
    read, wanted = Page(text_of(name)), [*SECTIONS[name].split(), "reading"]
    assert [each for each in read.ids if each in wanted] == wanted
    links = {each for each in read.loaded if each.startswith("#") and not each.startswith("#term-")}
    assert {f"#{each}" for each in wanted} == links


def test_every_term_leads_to_its_meaning(read: Page) -> None:
    terms = {each.removeprefix("#") for each in read.loaded if each.startswith("#term-")}
    assert terms == {each for each in read.ids if each.startswith("term-")}


def test_nothing_is_loaded_from_outside_and_ids_are_unique(read: Page) -> None:
    assert [target for target in read.loaded if not target.startswith(("#", "data:"))] == []
    assert sorted(read.ids) == sorted(set(read.ids)) and "plotly.js v" in read.library


def test_no_number_that_is_not_one_is_seen(read: Page) -> None:
    assert re.findall(r"\b(?:nan|NaN|inf|Infinity|None(?! of)|undefined)\b", read.words) == []
    assert [name for name, text in read.data.items() if re.search(r"\b(NaN|Infinity)\b", text)] == []


def test_charts_are_valid_plotly_figures(read: Page) -> None:
    for figure in figures_of(read):
        Figure(figure)


@pytest.mark.parametrize("name", MAKE)
def test_names_are_text_and_never_markup(name: str) -> None:
    """Titles, plans, tables and traces of the tests have names that look like markup."""
    text = text_of(name)
    assert not re.search(r"<(tiny|stall|GPT|mpi|b)>(?=[^<]* (GPT|by))|<script>alert", text)
    assert "<script" not in json.dumps(figures_of(Page(text)))
