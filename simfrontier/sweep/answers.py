"""What a data set says of its study's goal: the best point, the mean over samples, and which unknown explains most."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from simfrontier.errors import InputError
from simfrontier.records import dataclass
from simfrontier.sweep.goal import goal_values, goal_words
from simfrontier.sweep.indices import Indices, indices_of
from simfrontier.sweep.study import SweepStudy
from simfrontier.wholefile import write_whole

GOAL: Final = "goal.json"
LEAST_SHARE: Final = 0.01  # of the variance, of an unknown that is named


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalAnswer:
    """`words`: what the goal is. `best_point`, `best`: the number of the best point and its value (None: no point has
    the goal); `so_far`: the best after each point, nan before the first. `mean`, `sd`, `num_known`: over the points
    that have it. `indices`: of a study whose points are made for them; `why_not` where they cannot be found."""

    words: str
    best_point: int | None
    best: float | None
    so_far: tuple[float, ...]
    mean: float
    sd: float
    num_known: int
    indices: Indices | None = None
    why_not: str = ""


def goal_answer(study: SweepStudy, folder: Path, num_points: int) -> GoalAnswer | None:
    """The answer of a data set; None of a study without a goal."""
    goal = study.file.goal
    if goal is None:
        return None
    values = goal_values(folder, goal, num_points)
    is_most = goal.best == "most"
    so_far = np.fmax.accumulate(values) if is_most else np.fmin.accumulate(values)
    known = [value for value in values if not math.isnan(value)]
    best = (max if is_most else min)(known) if known else None
    indices, why_not = _indices(study, values)
    return GoalAnswer(
        words=goal_words(goal),
        best_point=None if best is None else values.index(best),
        best=best,
        so_far=tuple(so_far.tolist()),
        mean=float(np.mean(known)) if known else math.nan,
        sd=float(np.std(known)) if known else math.nan,
        num_known=len(known),
        indices=indices,
        why_not=why_not,
    )


def _indices(study: SweepStudy, values: Sequence[float]) -> tuple[Indices | None, str]:
    sampling = study.file.sampling
    if sampling is None or sampling.method != "saltelli" or study.filters or len(study.axes) > 1:
        return None, ""
    if len(study.sources) > 1:
        return None, ""
    try:
        return indices_of(study.keys, np.array(values).reshape(sampling.count, -1), sampling.seed), ""
    except InputError as error:
        return None, str(error)


def write_goal(answer: GoalAnswer, folder: Path) -> None:
    """Write goal.json into the folder of a data set."""
    write_whole(folder / GOAL, json.dumps(goal_document(answer), indent=1, ensure_ascii=False) + "\n")


def goal_document(answer: GoalAnswer) -> dict[str, Any]:
    """The answer as JSON holds it."""
    document: dict[str, Any] = _plain(asdict(answer))
    return document


def _plain(value: Any) -> Any:
    """The same with null where JSON has no number."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def measure_next(indices: Indices) -> str:
    """Which unknown to measure next, in a sentence."""
    first, *others = indices.unknowns
    if indices.sd == 0.0:
        return "Nothing that is varied changes the result"
    low, high = first.first_interval
    sentence = (
        f"Measure {first.key} next: by itself it explains {100 * first.first:.0f} % of the variance "
        f"({100 * low:.0f} to {100 * high:.0f} %); with it known the standard deviation falls from {indices.sd:.3g} to "
        f"{first.sd_left:.3g} on average"
    )
    if others and others[0].first >= LEAST_SHARE:
        sentence += f". Next comes {others[0].key}, with {100 * others[0].first:.0f} %"
    return sentence
