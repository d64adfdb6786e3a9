"""The page of a cross-check: whether simulated and real traces agree, and where they do not."""

from __future__ import annotations

from simfrontier.answers.study import versions
from simfrontier.core.trace import Comparison, CrossCheck, deltas
from simfrontier.interfaces.report.figures.crosscheck import scatter_figure, steps_figure, timelines_figure
from simfrontier.interfaces.report.findings.crosscheck import crosscheck_findings
from simfrontier.interfaces.report.render import as_html, page_of
from simfrontier.interfaces.report.theme import Figure, marks

MAX_BARS = 24_000  # on all timelines: more ranks are drawn while there are fewer


def crosscheck_page(check: CrossCheck) -> str:
    """The page as text; the same traces give the same text."""
    found = crosscheck_findings(check)
    added = {name: section for each in check.added for name, section in each.sections().items()}
    return page_of(
        "crosscheck",
        found=found,
        steps=steps_figure(found.steps),
        calls=scatter_figure(check, marks([each.plan for each in check.comparisons])),
        timelines={each.plan: _timelines(each, MAX_BARS // len(check.comparisons)) for each in check.comparisons},
        deltas={each.plan: deltas(each) for each in check.comparisons},
        titles={name: title for name, (title, _) in added.items()},
        added={name: as_html(section) for name, (_, section) in added.items()},
        versions=versions(),
    )


def _timelines(comparison: Comparison, max_bars: int) -> dict[str, Figure]:
    """Timelines by rank, the slowest first; as many ranks as there is room for, at least one."""
    slowest = comparison.slowest_rank
    ranks = [slowest, *(rank for rank in comparison.by_rank if rank != slowest)] if comparison.by_rank else []
    figures: dict[str, Figure] = {}
    room = max_bars
    for rank in ranks:
        room -= 2 * len(comparison.by_rank[rank])
        if figures and room < 0:
            break
        name = f"rank {rank} (the slowest)" if rank == slowest else f"rank {rank}"
        figures[name] = timelines_figure(comparison, rank)
    return figures
