"""A scenario simulated whole: its plans at its sizes and, where wanted, the variations of what is unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from simfrontier.answers.experiments import RowRunner
from simfrontier.answers.search import GridSearcher
from simfrontier.answers.study import ScheduleCache, run_study
from simfrontier.base.workers import HERE, PerProcess, Place, Workers, for_calls
from simfrontier.inputs.scenario import Scenario, refuse_variations
from simfrontier.interfaces.report import StudyView

if TYPE_CHECKING:
    from simfrontier.answers.experiments import Environment, Sensitivity
    from simfrontier.answers.search import TriedGrid
    from simfrontier.answers.slowdown import Slowdown
    from simfrontier.core.engine import Fidelity


def num_simulations(scenario: Scenario, vary: bool, trouble: bool = True) -> int:
    """How often `view_of` calls its `progress`."""
    sizes, table = scenario.file.run.devices, scenario.file.sensitivity
    total = len(scenario.plans) * len(sizes) + sum(len(scenario.at(size).searches) for size in sizes)
    total += _num_slowdowns(scenario, trouble)
    if not vary:
        return total
    return total + _num_varied(scenario) + (len(table.required) if table else 0) + 1  # other environments


def _num_slowdowns(scenario: Scenario, trouble: bool) -> int:
    if not trouble or scenario.file.slowdown is None:
        return 0
    from simfrontier.answers.slowdown import num_slowdowns

    return num_slowdowns(scenario)


def _num_varied(scenario: Scenario) -> int:
    table = scenario.file.sensitivity
    return len(table.sizes) * sum(len(each.values) for each in table.vary) if table else 0


def _most_at_once(scenario: Scenario, vary: bool, trouble: bool) -> int:
    """How many simulations do not have to wait for each other."""
    cases = len(scenario.plans) * len(scenario.file.run.devices)
    varied = _num_varied(scenario) if vary else 0
    return max(cases, varied, _num_slowdowns(scenario, trouble))


def _runner(schedules: PerProcess[ScheduleCache]) -> RowRunner:
    return RowRunner(searcher=GridSearcher(schedule_cache=schedules.here))


def view_of(
    scenario: Scenario,
    fidelity: Fidelity | None = None,
    exact: bool = False,
    vary: bool = True,
    place: Place = HERE,
    progress: Callable[[str], None] = lambda _: None,
    trouble: bool = True,
) -> StudyView:
    """All plans at all sizes, simulated; `vary`: also the scenario's variations of what is unknown, and what other
    environments would change; `trouble`: also what the troubles of its table `slowdown` cost. `progress` is called
    with a short text as each simulation ends. Raises as `api.simulate`."""
    if vary:
        refuse_variations(scenario)
    sizes = scenario.file.run.devices
    schedules = PerProcess(ScheduleCache)
    runner = PerProcess(_runner, schedules)
    tried: dict[tuple[str, int], tuple[TriedGrid, ...]] = {}
    if any(scenario.at(size).searches for size in sizes):
        searcher = GridSearcher(schedule_cache=schedules.here)
        scenario, tried = searcher.complete(scenario, progress), searcher.tried
    sensitivity: Sensitivity | None = None
    environment: Environment | None = None
    slowdown: Slowdown | None = None
    with Workers(for_calls(place, _most_at_once(scenario, vary, trouble))) as workers:
        study = run_study(scenario, fidelity, exact, progress, workers, schedules)
        if vary and scenario.file.sensitivity is not None:
            from simfrontier.answers.experiments import run_sensitivity

            sensitivity = run_sensitivity(scenario, study.fidelity, progress, workers, runner)
        if vary:
            from simfrontier.answers.experiments import environment_of

            environment = environment_of(scenario, max(sizes), study.fidelity, workers, runner)
            progress("other environments")
        if trouble and scenario.file.slowdown is not None:
            from simfrontier.answers.slowdown import run_slowdown

            slowdown = run_slowdown(scenario, study.fidelity, progress, workers, schedules)
    return StudyView(study=study, sensitivity=sensitivity, environment=environment, slowdown=slowdown, searches=tried)
