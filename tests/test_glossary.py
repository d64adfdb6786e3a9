"""The glossary is short and sorted, and its terms that are set as code exist in the code."""

import ast
import re
from pathlib import Path

from tests.some import some

ROOT = Path(__file__).parents[1]
MAX_ENTRIES = 60


def glossary_terms() -> list[str]:
    """The first column of the table in docs/glossary.md."""
    rows = [line for line in (ROOT / "docs" / "glossary.md").read_text().splitlines() if line.startswith("| ")]
    return [row.split("|")[1].strip() for row in rows[2:]]


def identifiers() -> set[str]:
    """All names of modules, classes, functions, arguments and attributes of the product."""
    found: set[str] = set()
    for package in ("simfrontier", "real/simfrontier_real"):
        for path in (ROOT / package).rglob("*.py"):
            found.add(path.stem)
            for node in ast.walk(ast.parse(path.read_text())):
                match node:
                    case ast.ClassDef() | ast.FunctionDef():
                        found.add(node.name)
                    case ast.arg():
                        found.add(node.arg)
                    case ast.Attribute():
                        found.add(node.attr)
                    case ast.Name():
                        found.add(node.id)
                    case _:
                        pass
    return found


def test_the_glossary_has_at_most_sixty_entries() -> None:
    assert 0 < len(glossary_terms()) <= MAX_ENTRIES


def test_terms_are_sorted_and_none_stands_twice() -> None:
    terms = [term.replace("`", "").casefold() for term in glossary_terms()]
    assert terms == sorted(set(terms))


def test_every_row_has_a_term_a_sentence_and_a_counterpart() -> None:
    table = [line for line in (ROOT / "docs" / "glossary.md").read_text().splitlines() if line.startswith("|")]
    assert all(len([cell for cell in row.split("|")[1:-1] if cell.strip()]) == 3 for row in some(table))


def test_terms_set_as_code_are_identifiers_of_the_code() -> None:
    known = identifiers()
    written = [name for term in glossary_terms() for name in re.findall(r"`([^`]+)`", term)]
    assert written
    assert [name for name in written if name not in known] == []


def test_the_readme_links_the_glossary() -> None:
    assert "(docs/glossary.md)" in (ROOT / "README.md").read_text()
