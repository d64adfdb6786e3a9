"""The page of a sweep, made from its folder alone: the data set is read, and nothing is run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from simfrontier.answers.experiments import OFF_BY, REPLAY
from simfrontier.answers.study import versions
from simfrontier.answers.sweep import GOAL, ROWS, measure_next
from simfrontier.base.wholefile import write_whole
from simfrontier.interfaces.report.figures.sweep import front_charts, heat_maps, parallel_coordinates
from simfrontier.interfaces.report.figures.sweep_goal import samples_figure, search_figure, shares_figure
from simfrontier.interfaces.report.findings.sweep import RATE, SweepFindings, SweptAxis, sweep_findings
from simfrontier.interfaces.report.findings.sweep_goal import SweptGoal
from simfrontier.interfaces.report.render import page_of
from simfrontier.interfaces.report.theme import Figure, marks

PAGE: Final = "index.html"
FEW_NUMBERS, FEW_TEXTS = 6, 12  # values of an axis that are all listed


def write_sweep_page(folder: Path) -> str:
    """Write index.html into the folder of a sweep, from the rows that are there. Returns what is left out of it, in a
    line; empty: nothing. Raises InputError where the folder holds no data set that can be read, or the page cannot be
    written."""
    found = sweep_findings(folder)
    write_whole(folder / PAGE, sweep_page(found))
    left_out = found.goal.left_out if found.goal else ""
    return left_out and f"{folder / GOAL}: {left_out}: left out of the page; running the sweep again rewrites it"


def sweep_page(found: SweepFindings) -> str:
    """The page as text; the same findings give the same text."""
    best, drawn, mark = found.best.to_dict("records"), found.rows_to_draw(), marks(found.values_of("plan"))
    return page_of(
        "sweep",
        found=found,
        axis_values=axis_values,
        best=best,
        lead=max(best, key=lambda row: row[RATE], default=None),
        fronts={found.size_name(size): front.to_dict("records") for size, front in found.fronts.items()},
        parallel=parallel_coordinates(found, drawn, mark),
        num_drawn=len(drawn),
        heat=heat_maps(found),
        front_charts=front_charts(found, drawn, mark),
        goal_figure=goal_figure(found.goal),
        measure_next=measure_next,
        marks=mark,
        replay=REPLAY,
        off_by=OFF_BY,
        rows_file=ROWS,
        versions=versions(),
    )


def axis_values(axis: SweptAxis) -> str:
    """The values of an axis in words: all of a few, the first of many texts, the ends of many numbers."""
    count = len(axis.values)
    if axis.quantity.is_number and count > FEW_NUMBERS:
        return f"{axis.in_words(axis.values[0])} to {axis.in_words(axis.values[-1])}: {count:,} values"
    listed = ", ".join(map(axis.in_words, axis.values[:FEW_TEXTS]))
    return f"{listed} and {count - FEW_TEXTS:,} more" if count > FEW_TEXTS else listed


def goal_figure(goal: SweptGoal | None) -> Figure | None:
    """The chart of the goal; None where it has none, or nothing to draw."""
    if goal is None or goal.answer is None or goal.answer.best is None:
        return None
    answer = goal.answer
    if answer.indices is not None:
        return shares_figure(answer.indices, goal.names) if answer.indices.sd else None
    if answer.kind == "search":
        return search_figure(goal, answer)
    return samples_figure(goal, answer) if answer.kind == "samples" else None
