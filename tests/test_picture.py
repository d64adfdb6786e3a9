"""The picture of the README is what is drawn today."""

from __future__ import annotations

import importlib.util

import pytest

from tests.invoke import ROOT


@pytest.mark.long
def test_the_picture_is_what_is_drawn(request: pytest.FixtureRequest) -> None:
    source = importlib.util.spec_from_file_location("picture", ROOT / "docs" / "picture.py")
    assert source and source.loader
    drawing = importlib.util.module_from_spec(source)
    source.loader.exec_module(drawing)
    if request.config.getoption("--golden"):
        drawing.PICTURE.write_text(drawing.picture(), encoding="utf-8")
        return
    assert drawing.picture() == drawing.PICTURE.read_text(encoding="utf-8"), "make picture draws it anew"
