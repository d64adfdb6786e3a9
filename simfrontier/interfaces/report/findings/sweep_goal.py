"""The goal of a sweep as its page shows it: what it came to, and in which words its unknowns are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simfrontier.answers.study import Column, Unit
from simfrontier.answers.sweep import GOAL, GoalAnswer, is_goal_of, read_goal
from simfrontier.base.errors import InputError, shown
from simfrontier.interfaces.report.findings.sweep_columns import QUANTITIES
from simfrontier.interfaces.report.phrases import in_unit


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptGoal:
    """`answer`: what goal.json holds, or None where it is left out, and then `left_out` says why. `title` and `unit`:
    of its values; `words`: what the goal is; `names`: of unknowns by their keys."""

    answer: GoalAnswer | None
    title: str = ""
    unit: Unit = "number"
    words: str = ""
    names: Mapping[str, str]
    left_out: str = ""

    def in_words(self, value: float) -> str:
        """A value of the goal in words."""
        return in_unit(value, self.unit)

    @property
    def steps(self) -> Iterator[tuple[int, float, float | None]]:
        """Return the successive best points: point, value, and improvement as a share of the previous best."""
        before = None
        for point, best in enumerate(self.answer.so_far if self.answer else ()):
            if best is not None and best != before:
                yield point, best, abs(best / before - 1.0) if before else None
                before = best


def swept_goal(
    folder: Path, manifest: Mapping[str, Any], num_points: int, axes: Mapping[str, Column]
) -> SweptGoal | None:
    """The goal of the data set in a folder; None where it has none. `axes`: what its axes are, by key. One that cannot
    be read, or is of other points, is left out: the same sweep makes it anew."""
    try:
        answer = read_goal(folder)
    except InputError as error:
        return _without(f"cannot be read: {error.outside(str(folder / GOAL))}")
    if answer is None:
        return None
    if not is_goal_of(answer, manifest, num_points):
        return _without("is of other points than the data set")
    keys = [each.key for each in answer.indices.unknowns] if answer.indices else []
    for key in keys:
        if key not in axes or keys.count(key) > 1:
            return _without(
                f"cannot be read: indices: got the unknown {shown(key)}; allowed: each axis of the data set once"
            )
    column = QUANTITIES[answer.column]
    return SweptGoal(
        answer=answer,
        title="ratio of two plans" if answer.is_ratio else column.title,
        unit="number" if answer.is_ratio else column.unit,
        words=column.title + answer.words.removeprefix(answer.column),
        names=_names(keys, axes),
    )


def _without(why: str) -> SweptGoal:
    return SweptGoal(answer=None, names={}, left_out=why)


def _names(keys: Sequence[str], axes: Mapping[str, Column]) -> dict[str, str]:
    """Return the titles of unknowns; their keys where two have the same title."""
    words = {key: axes[key].title for key in keys}
    return words if len(set(words.values())) == len(words) else {key: key for key in keys}
