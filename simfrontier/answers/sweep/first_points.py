"""First points of a search: drawn over the whole space, the best by the estimates in closed form that `tune` makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from simfrontier.answers.search import Estimate, SmallSchedules, estimate
from simfrontier.answers.study import RESULTS
from simfrontier.answers.sweep.form import GoalTable, SearchTable, Value
from simfrontier.answers.sweep.keys import put
from simfrontier.answers.sweep.sampling import shares
from simfrontier.answers.sweep.study import SweepStudy
from simfrontier.base.errors import InputError
from simfrontier.core.cost import Prices
from simfrontier.inputs.scenario import Scenario, scenario_of


def first_points(study: SweepStudy, table: SearchTable, goal: GoalTable) -> list[Mapping[str, Value]]:
    """Return the settings of the points that are drawn, the best estimate first. Points that do not fit by their
    estimate are left out; there are none for a goal that is not estimated."""
    if not table.estimates or not _is_estimated(goal):
        return []
    (source,) = study.sources.values()
    drawn = shares("latin-hypercube", table.estimates, len(study.searched), table.seed)
    columns = [axis.values(column) for axis, column in zip(study.searched, drawn.T, strict=True)]
    found: list[tuple[float, Mapping[str, Value]]] = []
    for row in zip(*columns, strict=True):
        values = dict(zip(study.keys, row, strict=True))
        try:
            changes = put({**study.settings, **values})
            scenario = scenario_of(source.document, source.path, changes, laid_out=False)
        except InputError:
            continue
        worths = list(_worths(scenario, goal))
        if worths:
            found.append((max(worths), values))
    return [values for _, values in sorted(found, key=lambda each: -each[0])]


def _is_estimated(goal: GoalTable) -> bool:
    """Whether the goal follows from the time of a step."""
    rates = {each.name for each in RESULTS if each.mean == "per second"}
    return goal.against is None and (goal.column == "step_time_s" or goal.column in rates)


def _worths(scenario: Scenario, goal: GoalTable) -> Iterator[float]:
    """How good each plan is that fits: samples per second, or less time of a step."""
    for plan in [goal.plan] if goal.plan else scenario.plans:
        size = goal.devices or max(scenario.file.run.devices)
        made = _estimate(scenario, plan, size)
        if made is not None and made.peak_bytes <= scenario.of(plan, size).machine.device.hbm_bytes:
            yield -made.step_s if goal.column == "step_time_s" else scenario.case(plan, size).samples / made.step_s


def _estimate(scenario: Scenario, plan: str, devices: int) -> Estimate | None:
    """The estimate of a plan at a size; None where it cannot be made or estimated, or leaves options open."""
    here = scenario.of(plan, devices)
    if plan in here.searches:
        return None
    prices = Prices(here.machine, here.library, devices, here.file.perturbation, here.file.run.placement)
    try:
        return estimate(scenario.case(plan, devices), SmallSchedules(prices))
    except InputError:
        return None
