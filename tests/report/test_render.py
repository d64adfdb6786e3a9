"""The library of a page: compressed once for a user, and again where nothing can be kept."""

from __future__ import annotations

import gzip
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest

from simfrontier.report.render import _library


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What the process remembers of the library is forgotten before and after."""
    _library.cache_clear()
    yield
    _library.cache_clear()


def test_the_library_is_kept_whole_and_read_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = _library()
    assert b"plotly.js v" in gzip.decompress(b64decode(made))[:1000]
    (kept,) = (tmp_path / "simfrontier").iterdir()
    assert kept.read_text() == made
    kept.write_text("kept")
    _library.cache_clear()
    assert _library() == "kept"


def test_a_cache_folder_that_cannot_be_written_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert b"plotly.js v" in gzip.decompress(b64decode(_library()))[:1000]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
