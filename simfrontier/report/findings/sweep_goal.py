"""The goal of a sweep as its page shows it: what it came to, and in which words its unknowns are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from simfrontier.errors import InputError, shown
from simfrontier.records import dataclass
from simfrontier.report.findings.sweep_columns import QUANTITIES, Quantity
from simfrontier.report.phrases import in_unit
from simfrontier.sweep import GOAL, GoalAnswer, is_goal_of, read_goal

RATIO: Final = "ratio of two plans"


@dataclass(frozen=True, slots=True, kw_only=True)
class BetterPoint:
    """A point with a better value than all before: better by a share `gain` of the best before, None of the first."""

    point: int
    value: float
    gain: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptGoal:
    """`answer`: what goal.json holds, or None where it is left out, and then `left_out` says why. `quantity`: what its
    values are; `words`: what the goal is; `names`: of unknowns by their keys."""

    answer: GoalAnswer | None
    quantity: Quantity
    words: str
    names: Mapping[str, str]
    left_out: str = ""

    def in_words(self, value: float) -> str:
        """A value of the goal in words."""
        return in_unit(value, self.quantity.unit)

    @property
    def steps(self) -> Iterator[BetterPoint]:
        """Points that were better than all before them."""
        before = None
        for point, best in enumerate(self.answer.so_far if self.answer else ()):
            if best is not None and best != before:
                yield BetterPoint(point=point, value=best, gain=abs(best / before - 1.0) if before else None)
                before = best


def swept_goal(
    folder: Path, manifest: Mapping[str, Any], num_points: int, axes: Mapping[str, Quantity]
) -> SweptGoal | None:
    """The goal of the data set in a folder; None where it has none. `axes`: what its axes are, by key. One that cannot
    be read, or is of other points, is left out: the same sweep makes it anew."""
    where = str(folder / GOAL)
    try:
        answer = read_goal(folder)
    except InputError as error:
        return _without(f"cannot be read: {error.outside(where)}")
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
        quantity=Quantity(words=RATIO, unit="number") if answer.is_ratio else column,
        words=column.words + answer.words.removeprefix(answer.column),
        names=_names(keys, axes),
    )


def _without(why: str) -> SweptGoal:
    return SweptGoal(answer=None, quantity=Quantity(words="", unit="number"), words="", names={}, left_out=why)


def _names(keys: Sequence[str], axes: Mapping[str, Quantity]) -> dict[str, str]:
    """In words; by their keys where two would be told alike."""
    words = {key: axes[key].words for key in keys}
    return words if len(set(words.values())) == len(words) else {key: key for key in keys}
