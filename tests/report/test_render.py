"""Pages and sentences from templates."""

from __future__ import annotations

import gzip
from base64 import b64decode

import pytest

from simfrontier.report.plotly_js import library
from simfrontier.report.render import environment, page_of, said
from tests.report.test_page import Page


def test_the_library_is_in_the_page_whole() -> None:
    assert b"plotly.js v" in gzip.decompress(b64decode(library()))[:1000]


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verb of which the environment has a page and sentences."""
    from jinja2 import ChoiceLoader, DictLoader

    page = (
        '{% extends "pages/frame.html.j2" %}{% set heading, title, subtitle = name, name, name %}'
        '{% set contents = {"one": ["First", "A heading"], "none": ["Second", "Not there"], "own": ["Third", ""]} %}'
        "{% block one %}<p>{{ said('made-up', 'both', name) | join('|') }}</p>{% endblock %}"
        "{% block none %}\n  {% endblock %}"
        '{% block own %}<section id="own"></section>{% endblock %}'
    )
    words = "{% macro both(name) %}\n{{ name }} is\n  in one\u00a0line.\n \n\n\nAnd another.\n{% endmacro %}"
    own = DictLoader({"pages/made-up.html.j2": page, "terminal/made-up.txt.j2": words})
    loader = environment(None).loader
    assert loader is not None
    monkeypatch.setattr(environment(None), "loader", ChoiceLoader([own, loader]))
    monkeypatch.setattr(environment(None), "bytecode_cache", None)
    monkeypatch.setattr(environment(None), "cache", {})


@pytest.mark.usefixtures("made_up")
def test_sentences_are_one_line_each_and_not_escaped() -> None:
    assert said("made-up", "both", "<a>") == ["<a> is in one\u00a0line.", "And another."]


@pytest.mark.usefixtures("made_up")
def test_a_page_has_the_sections_that_hold_something_and_escapes_their_sentences() -> None:
    page = page_of("made-up", name="<a>")
    read = Page(page)
    assert [name for name in ("one", "none", "own") if name in read.ids] == ["one", "own"]
    assert [target for target in read.loaded if target.startswith("#")] == ["#one", "#own"]
    assert "<a> is in one\u00a0line.|And another." in read.words and "<a> is" not in page
    assert page.count("<h2>") == 1 and "A heading" in read.words
