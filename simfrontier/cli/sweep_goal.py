"""What the terminal says of the goal of a sweep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table

from simfrontier.cli.console import grid
from simfrontier.report import number
from simfrontier.sweep import measure_next

if TYPE_CHECKING:
    from simfrontier.sweep import GoalAnswer, SweepStudy


def goal_lines(study: SweepStudy, answer: GoalAnswer) -> Iterator[str | Table]:
    """The best point of a search, the mean over samples, or a table of what explains the result most."""
    if answer.best is None or answer.best_point is None or answer.mean is None or answer.sd is None:
        yield f"No point has the goal, {answer.words}."
        return
    if answer.indices is not None:
        found = answer.indices
        table = grid(
            f"What explains {answer.words}: shares of its variance, in brackets 90 % intervals",
            ("unknown", "by itself", "if all else is known"),
            {"unknown"},
            {"unknown"},
            gap=2,
        )
        for each in found.unknowns:
            table.add_row(each.key, _share(each.first, each.first_interval), _share(each.total, each.total_interval))
        yield table
        left = "" if found.num_rounds == found.num_planned else f" of {found.num_planned:,}"
        yield (
            f"{answer.words}: mean {number(found.mean)}, standard deviation {number(found.sd)} over what is unknown "
            f"({found.num_rounds:,}{left} rounds)."
        )
        yield f"{measure_next(found)}."
        return
    if answer.why_not:
        yield f"No indices: {answer.why_not}."
    if answer.kind != "samples":
        settings = next(each for each in study.points() if each.number == answer.best_point).settings
        words = ", ".join(f"{key} = {settings[key]}" for key in study.keys)
        yield f"The best of {answer.words}: {number(answer.best)} at point {answer.best_point:,}, with {words}."
    else:
        yield (
            f"{answer.words}: mean {number(answer.mean)}, standard deviation {number(answer.sd)} over "
            f"{answer.num_known:,} samples."
        )


def _share(share: float, ends: tuple[float, float]) -> str:
    low, middle, high = (round(100 * each) + 0 for each in (ends[0], share, ends[1]))  # no -0
    return f"{middle} % ({low} to {high})"
