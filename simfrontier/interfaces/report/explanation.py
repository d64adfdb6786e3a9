"""The page of an explanation: where a step's time goes, the changes that help, and the differences between plans."""

from __future__ import annotations

from simfrontier.answers.explain import Explanation
from simfrontier.answers.study import versions
from simfrontier.interfaces.report.figures.explanation import (
    changes_figure,
    colours_of,
    parts_figure,
    strip_figure,
    waits_figure,
    waterfall_figure,
)
from simfrontier.interfaces.report.findings.explanation import (
    EQUAL,
    LITTLE,
    first_that_fits,
    shares_of,
    shown_differences,
    shown_parts,
)
from simfrontier.interfaces.report.render import page_of


def explanation_page(it: Explanation) -> str:
    """The page as text; the same explanation gives the same text."""
    figures = {
        "parts": parts_figure({it.plan: it.time}, colours_of([it.time])),
        "strip": strip_figure(it.path),
        "changes": changes_figure(it),
    }
    if it.waits.pairs:
        figures["waits"] = waits_figure(it.waits)
    if it.against is not None:
        times = {it.plan: it.time, it.against.plan: it.against.time}
        figures["both"] = parts_figure(times, colours_of(list(times.values())))
        figures["waterfall"] = waterfall_figure(it, it.against)
    best = first_that_fits(it.changes)
    return page_of(
        "explain",
        it=it,
        shares=shares_of(it.time),
        parts=shown_parts(it.time.parts),
        best=best,
        moves=best is not None and best.share >= LITTLE,
        equal=EQUAL,
        differences=shown_differences(it.against.differences) if it.against else (),
        figures=figures,
        versions=versions(),
    )
