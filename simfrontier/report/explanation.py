"""The page of an explanation: the critical path of a step, the changes that help, and the differences to another
plan."""

from __future__ import annotations

from pathlib import Path

from simfrontier.explanation import Explanation
from simfrontier.report.figures.explanation import (
    changes_figure,
    colours_of,
    parts_figure,
    strip_figure,
    waterfall_figure,
)
from simfrontier.report.findings.explanation import LITTLE, first_that_fits, shown_differences, shown_parts
from simfrontier.report.manifest import versions
from simfrontier.report.render import page_of
from simfrontier.wholefile import write_whole


def explanation_page(it: Explanation) -> str:
    """The page as text; the same explanation gives the same text."""
    own = colours_of([it.path])
    figures = {
        "parts": parts_figure({it.plan: it.path}, own),
        "strip": strip_figure(it.path, own),
        "changes": changes_figure(it),
    }
    if it.against is not None:
        paths = {it.plan: it.path, it.against.plan: it.against.path}
        figures["both"] = parts_figure(paths, colours_of(list(paths.values())))
        figures["waterfall"] = waterfall_figure(it, it.against)
    best = first_that_fits(it.changes)
    return page_of(
        "explain",
        it=it,
        parts=shown_parts(it.path.parts()),
        best=best,
        moves=best is not None and best.share >= LITTLE,
        differences=shown_differences(it.against.differences) if it.against else (),
        figures=figures,
        versions=versions(),
    )


def write_explanation_page(explanation: Explanation, path: Path) -> None:
    """Write the page. Raises InputError where the file cannot be written."""
    write_whole(path, explanation_page(explanation))
