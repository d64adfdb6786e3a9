"""Pages and sentences from templates; the library of a page, compressed once for a user, and again where nothing can be
kept."""

from __future__ import annotations

import gzip
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest

from simfrontier.report import StudyView, findings_of, write_page
from simfrontier.report.kept import kept_folder, library
from simfrontier.report.render import environment, page_of, prepare, said
from tests.report.studies import study
from tests.report.test_page import Page


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the process remembers of the library is forgotten before and after; no virtual environment is used."""
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    library.cache_clear()
    yield
    library.cache_clear()


def test_thelibrary_is_kept_whole_and_read_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = library()
    assert b"plotly.js v" in gzip.decompress(b64decode(made))[:1000]
    (kept,) = (tmp_path / "simfrontier").iterdir()
    assert kept.read_text() == made
    kept.write_text("kept")
    library.cache_clear()
    assert library() == "kept"


def test_a_virtual_environment_keeps_it_for_all_who_use_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    assert tmp_path not in kept_folder().parents  # which is not there, and so not to be written
    (tmp_path / "environment").mkdir()
    made = library()
    (kept,) = (tmp_path / "environment" / "var" / "cache" / "simfrontier").iterdir()
    assert kept.read_text() == made


def test_a_cache_folder_that_cannot_be_written_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert b"plotly.js v" in gzip.decompress(b64decode(library()))[:1000]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_set_up_prepares_is_all_that_pages_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kept() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "simfrontier").rglob("*") if path.is_file()}

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    environment.cache_clear()
    prepare()
    before = kept()
    library.cache_clear()
    environment.cache_clear()
    view = StudyView(study=study())
    write_page(findings_of(view), view, tmp_path / "index.html")
    environment.cache_clear()
    assert len(before) > 40 and kept() == before


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
