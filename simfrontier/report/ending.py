"""The last section of pages: definitions, and the versions that made them."""

from __future__ import annotations

from collections.abc import Mapping

from simfrontier.report.manifest import versions
from simfrontier.report.markup import section, table, text


def how_to_read(meanings: Mapping[str, str], *more: str) -> str:
    """The section: words with their meanings, both as plain text, and versions, those of `more` libraries too."""
    made = [[text(name), text(version)] for name, version in versions(*more).items()]
    return section(
        "reading",
        "How to read this",
        table(["word", "meaning"], [[text(word), text(meaning)] for word, meaning in meanings.items()], "words"),
        "<h3>What made this page</h3>",
        table(["what", "version"], made, "words"),
    )
