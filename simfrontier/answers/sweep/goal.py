"""The goal of a study: the number of each of its points that it is made for."""

from __future__ import annotations

from collections.abc import Collection

from simfrontier.answers.experiments import REPLAYED
from simfrontier.answers.study import RESULTS
from simfrontier.answers.sweep.form import GoalTable, StudyFile
from simfrontier.answers.sweep.indices import LEAST_ROUNDS
from simfrontier.base.errors import InputError, nearest

GOALS = tuple(column.name for column in RESULTS if column.is_number)


def refuse_goal(file: StudyFile) -> None:
    """Raise InputError for a goal that no row has, where there is none though it is needed, and for what a study that
    searches or finds indices cannot have."""
    goal, sampling = file.goal, file.sampling
    if file.search is not None:
        _refuse_beside_search(file)
    if sampling is not None and sampling.method == "saltelli":
        _refuse_design(file, sampling.count)
    if goal is None:
        return
    if goal.column not in GOALS:
        raise InputError(f'no column "{goal.column}" of numbers; {nearest(goal.column, GOALS)}', key=("goal", "column"))
    if file.replay and goal.column not in REPLAYED:
        allowed = ", ".join(column for column in GOALS if column in REPLAYED)
        raise InputError(f"got {goal.column}, which replayed rows have not; allowed: {allowed}", key=("goal", "column"))
    if goal.against is not None and goal.plan is None:
        raise InputError("got against without plan; allowed: with plan", key=("goal", "against"))


def refuse_plans(goal: GoalTable, plans: Collection[str]) -> None:
    """Raise InputError for a plan that a scenario of the study has not."""
    for key in ("plan", "against"):
        name = getattr(goal, key)
        if name is not None and name not in plans:
            raise InputError(f'no plan "{name}" in all scenarios; {nearest(name, plans)}', key=("goal", key))


def _refuse_design(file: StudyFile, count: int) -> None:
    """Raise InputError for a design of which no indices would be found."""
    if file.goal is None:
        raise InputError("saltelli has no goal; allowed: a study with a table goal", key=("sampling", "method"))
    if count < LEAST_ROUNDS or count & (count - 1):
        text = f"got {count}, allowed with saltelli: a power of two, {LEAST_ROUNDS} or more"
        raise InputError(text, key=("sampling", "count"))
    if len(file.scenarios) > 1:
        raise InputError(f"got {len(file.scenarios)}, allowed with saltelli: one", key=("scenarios",))
    if file.filters:
        raise InputError("stand beside saltelli, which needs all points; allowed: none", key=("filters",))
    for number, table in enumerate(file.axes):
        if table.between is None and table.among is None and (table.samples is None or table.samples.count is not None):
            raise InputError("is not sampled; allowed with saltelli: between, among, samples", key=("axes", number))


def _refuse_beside_search(file: StudyFile) -> None:
    """Raise InputError for what a study that searches cannot have."""
    if file.goal is None:
        raise InputError("has no goal; allowed: a study with a table goal", key=("search",))
    if len(file.scenarios) > 1:
        raise InputError(f"got {len(file.scenarios)}, allowed beside search: one", key=("scenarios",))
    for key in ("sampling", "replay", "filters"):
        if getattr(file, key):
            raise InputError("stands beside search; allowed: one of the two", key=(key,))


def goal_words(goal: GoalTable) -> str:
    """What the goal is, for people."""
    of = "" if goal.plan is None else f" of {goal.plan}" if goal.against is None else f", {goal.plan} : {goal.against}"
    return f"{goal.column}{of}{f' on {goal.devices:,}' if goal.devices else ''}"
