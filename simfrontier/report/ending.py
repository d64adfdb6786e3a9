"""The last section of pages: definitions, and the versions that made them."""

from __future__ import annotations

from collections.abc import Mapping

from simfrontier.report.manifest import versions
from simfrontier.report.render import macros


def how_to_read(meanings: Mapping[str, str], *more: str) -> str:
    """The section: words with their meanings, both as plain text, and versions, those of `more` libraries too."""
    return str(macros().how_to_read(meanings, versions(*more)))
