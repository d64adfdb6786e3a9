"""A scenario simulated whole: its plans at its sizes and, where wanted, the variations of what is unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from simfrontier.report import StudyView
from simfrontier.scenario import Scenario
from simfrontier.study import ScheduleCache, run_study

if TYPE_CHECKING:
    from simfrontier.environment import Environment
    from simfrontier.sensitivity import Sensitivity
    from simfrontier.simulation import Fidelity
    from simfrontier.slowdown import Slowdown
    from simfrontier.tuning import TriedGrid


def num_simulations(scenario: Scenario, vary: bool, trouble: bool = True) -> int:
    """How often `view_of` calls its `progress`."""
    sizes, table = scenario.file.run.devices, scenario.file.sensitivity
    total = len(scenario.plans) * len(sizes) + sum(len(scenario.at(size).searches) for size in sizes)
    if trouble and scenario.file.slowdown is not None:
        from simfrontier.slowdown import num_slowdowns

        total += num_slowdowns(scenario)
    if not vary:
        return total
    varied = len(table.sizes) * sum(len(v.values) for v in table.vary) + len(table.required) if table else 0
    return total + varied + 1  # other environments


def view_of(
    scenario: Scenario,
    fidelity: Fidelity | None = None,
    exact: bool = False,
    vary: bool = True,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _: None,
    trouble: bool = True,
) -> StudyView:
    """All plans at all sizes, simulated; `vary`: also the scenario's variations of what is unknown, and what other
    environments would change; `trouble`: also what the troubles of its table `slowdown` cost. `progress` is called
    with a short text as each simulation ends. Raises as `api.simulate`."""
    if vary:
        scenario.refuse_variations()
    sizes = scenario.file.run.devices
    schedule_cache = ScheduleCache()
    tried: dict[tuple[str, int], tuple[TriedGrid, ...]] = {}
    if any(scenario.at(size).searches for size in sizes):
        from simfrontier.tuning import GridSearcher

        searcher = GridSearcher(schedule_cache=schedule_cache)
        scenario, tried = searcher.complete(scenario, progress), searcher.tried
    study = run_study(scenario, fidelity, exact, jobs, progress, schedule_cache)
    sensitivity: Sensitivity | None = None
    environment: Environment | None = None
    if vary and scenario.file.sensitivity is not None:
        from simfrontier.sensitivity import run_sensitivity

        known = () if exact else study.outcomes
        sensitivity = run_sensitivity(scenario, study.fidelity, progress, known, schedule_cache)
    if vary:
        from simfrontier.environment import environment_of

        environment = environment_of(scenario, max(sizes))
        progress("other environments")
    slowdown: Slowdown | None = None
    if trouble and scenario.file.slowdown is not None:
        from simfrontier.slowdown import run_slowdown

        slowdown = run_slowdown(scenario, study.fidelity, progress, schedule_cache, jobs)
    return StudyView(study=study, sensitivity=sensitivity, environment=environment, slowdown=slowdown, searches=tried)
