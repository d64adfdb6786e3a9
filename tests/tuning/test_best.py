"""The best plans as a file: TOML that reads back as the same document."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from simfrontier.io import comment, toml_document
from simfrontier.tuning.best import best_document, best_toml
from tests.tuning.toys import toy_tuning

_PLAIN = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(st.characters(codec="utf-8"))
)
_KEYS = st.text(st.characters(codec="utf-8"), max_size=8)
_VALUES = st.recursive(
    _PLAIN, lambda each: st.one_of(st.lists(each, max_size=3), st.dictionaries(_KEYS, each, max_size=3))
)


@given(st.dictionaries(_KEYS, _VALUES, max_size=5))
def test_a_document_reads_back_as_it_was(document: dict[str, Any]) -> None:
    assert tomllib.loads(toml_document(document)) == document


def test_what_toml_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="TOML has no NoneType"):
        toml_document({"a": None})


@given(st.text(st.characters(codec="utf-8")))
def test_a_comment_is_only_that(words: str) -> None:
    assert tomllib.loads(f"{comment(words)}\na = 1\n") == {"a": 1}


def test_tables_and_remarks_are_where_a_person_looks() -> None:
    document = {"name": "x", "plans": {"best": {"x": 1, "data": {"family": "ddp"}}, "none": {}}}
    assert toml_document(document, {"plans.best": "fast"}) == (
        'name = "x"\n\n# fast\n[plans.best]\nx = 1\n\n[plans.best.data]\nfamily = "ddp"\n\n[plans.none]\n'
    )


def test_the_file_says_what_the_document_has() -> None:
    outcome = toy_tuning()
    text = best_toml(outcome, Path("anywhere"))
    document = best_document(outcome, Path("anywhere"))
    assert tomllib.loads(text) == document
    assert [*document["plans"]] == ["best", "second", "third"] and document["training"] == {"batch": 16}
    assert f"# {outcome.best.candidate.name}: " in text
