"""Answer the goal of a study from its data set: the best point, the mean over samples, and the unknown that explains
most of the variance.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import Field

from simfrontier.answers.sweep.dataset import ROWS, manifest_of, read_rows
from simfrontier.answers.sweep.form import GoalTable, Number
from simfrontier.answers.sweep.indices import Indices, indices_of
from simfrontier.answers.sweep.study import SweepStudy
from simfrontier.base.errors import InputError
from simfrontier.base.io import json_of, text_of, typed
from simfrontier.base.wholefile import write_whole

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
    """Return the goal at each point of a data set, in order; nan if a point has no value because it was refused or does
    not fit into memory.
    """
    best = "max" if goal.best == "most" else "min"
    rows = read_rows(folder, ("point", "plan", "devices", goal.column)).to_pandas().dropna(subset=[goal.column])
    if goal.devices is not None:
        rows = rows[rows["devices"] == goal.devices]

    def of_plan(plan: str | None) -> Any:
        mine = rows if plan is None else rows[rows["plan"] == plan]
        return mine.groupby(["point", "devices"])[goal.column].agg(best)

    values = of_plan(goal.plan)
    if goal.against is not None:
        values = (values / of_plan(goal.against)).replace([math.inf, -math.inf], math.nan)
    found: list[float] = values.groupby("point").agg(best).reindex(range(num_points)).astype(float).tolist()
    return found


def best_of(values: Sequence[float], goal: GoalTable) -> float:
    """Return the best known value of a goal; nan if none is known."""
    known = [value for value in values if not math.isnan(value)]
    return (max if goal.best == "most" else min)(known, default=math.nan)


def goal_answer(study: SweepStudy, folder: Path, num_points: int) -> GoalAnswer | None:
    """Return the answer to a study's goal from its data set; None if the study has no goal."""
    goal = study.file.goal
    if goal is None:
        return None
    values = goal_values(folder, goal, num_points)
    is_most = goal.best == "most"
    so_far = np.fmax.accumulate(values) if is_most else np.fmin.accumulate(values)
    known = [value for value in values if not math.isnan(value)]
    best = best_of(values, goal) if known else None
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
    if sampling is None or sampling.method != "saltelli":
        return None, ""
    try:
        return indices_of(study.keys, np.array(values).reshape(sampling.count, -1), sampling.seed), ""
    except InputError as error:
        return None, str(error)


def goal_words(goal: GoalTable) -> str:
    """Return a description of the goal for display."""
    of = "" if goal.plan is None else f" of {goal.plan}" if goal.against is None else f", {goal.plan} : {goal.against}"
    return f"{goal.column}{of}{f' on {goal.devices:,}' if goal.devices else ''}"


def _cells(values: Sequence[float]) -> Cells:
    return tuple(value if math.isfinite(value) else None for value in values)


def write_goal(answer: GoalAnswer | None, folder: Path) -> None:
    """Write goal.json into the folder of a data set; without an answer, remove an existing file. Raises InputError."""
    if answer is None:
        (folder / GOAL).unlink(missing_ok=True)
        return
    write_whole(folder / GOAL, json.dumps(goal_document(answer), indent=1, ensure_ascii=False) + "\n")


def goal_document(answer: GoalAnswer) -> dict[str, Any]:
    """Return the answer as a JSON document."""
    return asdict(answer)


def read_goal(folder: Path) -> GoalAnswer | None:
    """Read the answer from the folder of a data set; None if there is none. Raises InputError if the
    file is damaged.
    """
    path = folder / GOAL
    if not path.exists():
        return None
    text = text_of(path, "goal of a sweep")
    return typed(json_of(text, str(path), "goal of a sweep"), GoalAnswer, str(path))


def is_goal_of(answer: GoalAnswer, manifest: Mapping[str, Any], num_points: int) -> bool:
    """Return whether an answer belongs to the current points of a data set, which may have changed since."""
    return answer.points_sha256 == _points_of(manifest) and len(answer.values) == num_points


def _points_of(manifest: Mapping[str, Any]) -> str:
    return str(manifest.get("points_sha256", ""))


def measure_next(
    indices: Indices, names: Mapping[str, str] | None = None, told: Callable[[float], str] = "{:.3g}".format
) -> str:
    """Return a sentence that names the unknown to measure next. `names`: display names of unknowns by key (default: the
    keys); `told`: formats a standard deviation.
    """
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


def best_rows(folder: Path) -> list[dict[str, Any]]:
    """Return, for each plan of each scenario, the row with the most tokens per second (the first of equals) with all
    columns, in the order of the data set; no row for a plan that never fits into memory. Raises InputError for a folder
    without a data set.
    """
    import pyarrow.dataset as ds

    rows = read_rows(folder, ("scenario", "plan", "tokens_per_s")).to_pandas().dropna(subset=["plan", "tokens_per_s"])
    places = rows.groupby(["scenario", "plan"], sort=False)["tokens_per_s"].idxmax()
    found: list[dict[str, Any]] = ds.dataset(folder / ROWS).take(places.tolist()).to_pylist() if len(places) else []
    return found
