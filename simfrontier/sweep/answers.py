"""What a data set says of its study's goal: the best point, the mean over samples, and which unknown explains most."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import Field

from simfrontier.errors import InputError, shown
from simfrontier.io import json_of, num_values, text_of, typed
from simfrontier.limits import GOAL_FILE, GOAL_VALUES
from simfrontier.records import dataclass
from simfrontier.sweep.dataset import manifest_of, parts_of
from simfrontier.sweep.form import GoalTable, Number
from simfrontier.sweep.goal import GOALS, goal_words
from simfrontier.sweep.indices import Indices, indices_of
from simfrontier.sweep.study import SweepStudy
from simfrontier.wholefile import write_whole

GOAL: Final = "goal.json"
LEAST_SHARE: Final = 0.01  # of the variance, of an unknown that is named


Cells = tuple[Number | None, ...]  # one for each point; None: it has none
Place = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalAnswer:
    """`words`: what the goal is, which begin with its `column` of the results; `is_ratio`: of two plans; `is_most`:
    whether much of it is wanted, or little. `kind`: whether points were searched for, sampled, or all combinations.
    `points_sha256`: of the points, as the manifest has it.

    `values`: the goal at each point, None where it has none; `so_far`: the best after each, None before the first.
    `best_point`, `best`: the number of the best point and its value. `mean`, `sd`, `num_known`: over the points that
    have the goal. All None where no point has it. `indices`: of a study whose points are made for them; `why_not`
    where they cannot be found."""

    words: str
    column: str
    is_ratio: bool
    is_most: bool
    kind: Literal["search", "samples", "grid"]
    points_sha256: str
    best_point: Place | None
    best: Number | None
    mean: Number | None
    sd: Number | None
    num_known: Place
    values: Cells
    so_far: Cells
    indices: Indices | None = None
    why_not: str = ""


def goal_values(folder: Path, goal: GoalTable, num_points: int) -> list[float]:
    """The goal at each point of a data set, in order; nan where a point has none: it was refused, or does not fit."""
    best = max if goal.best == "most" else min
    of: dict[tuple[int, int], float] = {}
    against: dict[tuple[int, int], float] = {}
    for point, plan, devices, value in _rows_of(folder, goal.column):
        if value is None or (goal.devices is not None and devices != goal.devices):
            continue
        key = point, devices
        if goal.plan is None or plan == goal.plan:
            of[key] = best(value, of.get(key, value))
        if plan == goal.against:
            against[key] = value
    out = [math.nan] * num_points
    for (point, devices), value in of.items():
        if goal.against is not None:
            other = against.get((point, devices))
            value = value / other if other else math.nan
        if not math.isnan(value):
            out[point] = value if math.isnan(out[point]) else best(value, out[point])
    return out


def _rows_of(folder: Path, column: str) -> Iterator[tuple[Any, ...]]:
    for table in parts_of(folder):
        columns = (table.column(name).to_pylist() for name in ("point", "plan", "devices", column))
        yield from zip(*columns, strict=True)


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
        column=goal.column,
        is_ratio=goal.against is not None,
        is_most=is_most,
        kind="search" if study.searched else "grid" if study.file.sampling is None else "samples",
        points_sha256=_points_of(manifest_of(folder)),
        best_point=None if best is None else values.index(best),
        best=best,
        mean=float(np.mean(known)) if known else None,
        sd=float(np.std(known)) if known else None,
        num_known=len(known),
        values=_cells(values),
        so_far=_cells(so_far.tolist()),
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


def _cells(values: Sequence[float]) -> Cells:
    return tuple(value if math.isfinite(value) else None for value in values)


def write_goal(answer: GoalAnswer | None, folder: Path) -> None:
    """Write goal.json into the folder of a data set; without an answer one of before is removed. Raises InputError."""
    if answer is None:
        try:
            (folder / GOAL).unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"cannot be removed: {error.strerror}", where=str(folder / GOAL)) from None
        return
    write_whole(folder / GOAL, json.dumps(goal_document(answer), indent=1, ensure_ascii=False) + "\n")


def goal_document(answer: GoalAnswer) -> dict[str, Any]:
    """The answer as JSON holds it."""
    return asdict(answer)


def read_goal(folder: Path) -> GoalAnswer | None:
    """The answer in the folder of a data set; None where there is none. Raises InputError for what is damaged."""
    path = folder / GOAL
    if not path.exists():
        return None
    text = text_of(path, "goal of a sweep", GOAL_FILE)
    if fault := GOAL_VALUES.fault(num_values(text)):
        raise InputError(fault, where=str(path))
    answer = typed(json_of(text, str(path), "goal of a sweep"), GoalAnswer, str(path))
    if fault := _fault_of(answer):
        raise InputError(f"{fault}; allowed: a goal as `simfrontier sweep` writes it", where=str(path))
    return answer


def is_goal_of(answer: GoalAnswer, manifest: Mapping[str, Any], num_points: int) -> bool:
    """Whether an answer is of the points of a data set, which may have been given others since."""
    return answer.points_sha256 == _points_of(manifest) and len(answer.values) == num_points


def _points_of(manifest: Mapping[str, Any]) -> str:
    return str(manifest.get("points_sha256", ""))


def _fault_of(answer: GoalAnswer) -> str:
    """What parts of an answer do not agree, if any."""
    known = [value for value in answer.values if value is not None]
    at = answer.best_point
    if answer.column not in GOALS or not answer.words.startswith(answer.column):
        return f"column: got {shown(answer.column)}, no column of numbers that the words begin with"
    if len(answer.so_far) != len(answer.values) or len(known) != answer.num_known:
        return f"values: got {len(answer.values)} of which {len(known)} are known, and other numbers beside them"
    if any((value is None) != (not known) for value in (at, answer.best, answer.mean, answer.sd)):
        return "best_point, best, mean, sd: got some without values, or values without them"
    if at is not None and (at >= len(answer.values) or answer.values[at] != answer.best):
        return f"best_point: got {at}, whose value is another one than the best"
    if answer.indices is not None and not answer.indices.unknowns:
        return "indices: got none of no unknown"
    return ""


def measure_next(
    indices: Indices, names: Mapping[str, str] | None = None, told: Callable[[float], str] = "{:.3g}".format
) -> str:
    """Which unknown to measure next, in a sentence; `names`: of unknowns by key, without them the keys; `told`: writes
    a standard deviation."""
    words = names or {each.key: each.key for each in indices.unknowns}
    first, *others = indices.unknowns
    if indices.sd == 0.0:
        return "Nothing that is varied changes the result"
    low, high = first.first_interval
    sentence = (
        f"Measure {words[first.key]} next: by itself it explains {100 * first.first:.0f} % of the variance "
        f"({100 * low:.0f} to {100 * high:.0f} %); with it known the standard deviation falls from {told(indices.sd)} "
        f"to {told(first.sd_left)} on average"
    )
    if others and others[0].first >= LEAST_SHARE:
        sentence += f". Next comes {words[others[0].key]}, with {100 * others[0].first:.0f} %"
    return sentence
