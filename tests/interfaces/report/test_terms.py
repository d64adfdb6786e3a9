"""Terms of pages: the glossary of the documentation has each with the same meaning."""

import pytest

from simfrontier.interfaces.report.terms import TERMS, term_key
from tests.invoke import ROOT

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("key", TERMS)
def test_the_glossary_has_every_term_once_with_its_meaning(key: str) -> None:
    name, meaning = TERMS[key]
    assert [row.split(" | ")[1] for row in GLOSSARY if row.startswith(f"| {name} | ")] == [meaning]


@pytest.mark.parametrize(
    ("text", "key"), [("MFU", "mfu"), ("90\u00a0% interval", "interval"), ("Nominal step", "nominal"), ("plan", "")]
)
def test_a_text_is_a_term_or_none(text: str, key: str) -> None:
    assert term_key(text) == key
