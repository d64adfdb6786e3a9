"""The schema and the readers agree on changed files: what the schema refuses no reader takes, and what the form of a
file refuses the schema refuses too, but for what JSON Schema has no words for."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Final

import pytest

from simfrontier.errors import InputError
from tests.json_schema.changed import changed
from tests.json_schema.kinds import KINDS, Document, Kind, faults

CHANGES: Final = 150  # of each kind of file
# What forms refuse and no schema can say, or says only of whole families.
BEYOND: Final = (
    # JSON has one kind of number: 8.0 is 8
    r"got \S*\d\.0\b.*, allowed: a whole number",
    r"got -?\d(\.\d+)?e\+\d+, allowed: a whole number",
    r"allowed: around ",  # an interval around its value
    r"codec '.*': write ",  # what follows a codec's name
    r"compression '.*'",  # what follows a policy's name
    r"allowed: axes of nesting",
    r"got nothing to search|but it is searched for|cannot be searched for|is of the grids of family",
    r"Infinity",  # which is a number to a validator; where it is bounded above it is refused
    r"and .* both say how messages are coded|which cannot carry",
    r"not of the catalog; did you mean",
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_the_schema_refuses_its_reader_refuses(kind: Kind, tmp_path: Path) -> None:
    taken, refused = [], 0
    for path, document, how in _changed(kind, seed=1):
        if not (said := faults(kind.name, document)):
            continue
        refused += 1
        try:
            kind.read(document, path, tmp_path)
        except InputError:
            continue
        taken.append((path.name, how, said[0]))
    assert taken == []
    assert refused > 0.4 * CHANGES


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_a_form_refuses_the_schema_refuses_but_for_what_it_cannot_say(kind: Kind) -> None:
    missed, unexpected, refused = [], [], 0
    for path, document, how in _changed(kind, seed=2):
        try:
            kind.form(document)
        except InputError as error:
            refused += 1
            if not faults(kind.name, document):
                missed.append((path.name, how, str(error)))
                unexpected += [] if _is_beyond(str(error), document) else missed[-1:]
    assert unexpected == []
    assert len(missed) < 0.06 * refused, f"{len(missed)} of {refused}"
    assert refused > 0.4 * CHANGES


def _is_beyond(message: str, document: Document) -> bool:
    """Whether a schema cannot know it: whether a base has what a file leaves out, either."""
    return any(re.search(known, message) for known in BEYOND) or ("base" in document and "missing" in message)


def _changed(kind: Kind, seed: int) -> list[tuple[Path, Document, str]]:
    rng, documents = random.Random(seed), list(kind.documents.items())
    out = []
    for _ in range(CHANGES):
        path, document = rng.choice(documents)
        out.append((path, *changed(document, rng)))
    return out
