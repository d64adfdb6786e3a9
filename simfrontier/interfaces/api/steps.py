"""Simulation from Python: one step of a plan, or all plans at all sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfrontier.base.errors import InputError, nearest
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.api import given
from simfrontier.interfaces.api.scenarios import USUAL_PLANS, Plans, Settings, load, new_scenario

if TYPE_CHECKING:
    from simfrontier.core.engine import Fidelity, SimulatedStep
    from simfrontier.interfaces.api.comparison import Comparison


def simulate(
    scenario: Scenario | str | Path,
    plan: str | None = None,
    *,
    devices: int | None = None,
    fidelity: Fidelity | None = None,
    exact: bool = False,
) -> SimulatedStep:
    """Build, check and simulate one step of a plan (default: the scenario's first) at a size (default: its largest).

    `scenario`: of `load` or `new_scenario`, or the path of a file. `fidelity`: analytic, flow or chunk (default: the
    scenario's). `exact`: simulate every rank, without folding. `step_s` and `compute_s` of the
    step are in seconds; the step is nominal: without variation between devices or errors of models. A plan that
    leaves options open is searched first. Raises InputError for an invalid plan, size or fidelity, NothingFitsError
    if no candidate of a search fits into memory, SimfrontierError if the check of the schedule fails.
    """
    from simfrontier.answers.search import GridSearcher
    from simfrontier.answers.study import simulated

    chosen = given.fidelity(fidelity)
    read = read_scenario(scenario)
    name, size = case_named(read, plan, devices)
    searcher = GridSearcher()
    read = searcher.resolved(read, (size,), (name,))
    built = searcher.schedule_cache.get(read, name, size)
    return simulated(read.of(name, size), built, chosen or read.file.run.fidelity, exact)


def compare(
    scenario: Scenario | str | Path,
    model: str | Mapping[str, Any] | None = None,
    plans: Plans | None = None,
    *,
    devices: int | Sequence[int] = (),
    settings: Settings | None = None,
    fidelity: Fidelity | None = None,
    exact: bool = False,
    vary: bool = False,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Simulate every plan at every size; displays a table and a chart in a notebook.

    Takes a scenario (of `load` or `new_scenario`, or the path of a file, whose `plans`, `devices` and `settings`
    may be replaced here), or a machine, a model, plans and sizes, as `new_scenario` does. `fidelity` and `exact` as in
    `simulate`. `vary`: also simulate the scenario's variations of unknown settings and degraded components.
    `jobs`: number of processes. `progress` is called with a short text after each case. Raises as `simulate` does.

    >>> compare("frontier", "gpt-13b", ["zero3", "zero-topo"], devices=[8, 64, 384])
    """
    from simfrontier.base.workers import Local
    from simfrontier.interfaces.api.comparison import Comparison
    from simfrontier.interfaces.api.views import view_of

    sizes, chosen = given.sizes(devices), given.fidelity(fidelity)
    if model is None:
        read = _read(scenario, plans, sizes, settings)
    else:
        if not isinstance(scenario, str):
            raise InputError("model: got one beside a scenario; allowed: beside the name of a machine")
        if not sizes:
            raise InputError("devices: got none; allowed: sizes, e.g. devices=[8, 64, 384]")
        read = new_scenario(scenario, model, USUAL_PLANS if plans is None else plans, devices=sizes, settings=settings)
    processes = given.jobs(jobs)
    _refuse_jobs(read, processes)
    return Comparison(view=view_of(read, chosen, exact, vary, Local(jobs=processes), progress, trouble=vary))


def read_scenario(scenario: Scenario | str | Path) -> Scenario:
    """The scenario, read where it is the path of a file."""
    return scenario if isinstance(scenario, Scenario) else load(scenario)


def case_named(scenario: Scenario, plan: str | None, devices: int | None) -> tuple[str, int]:
    """A plan and a size, by default the scenario's first and its largest. Raises InputError for a plan it has not."""
    name = given.name(plan) or next(iter(scenario.plans))
    size = given.size(devices)
    if name not in scenario.plans:
        raise InputError(f"plan {name!r}: {nearest(name, tuple(scenario.plans))}")
    return name, max(scenario.file.run.devices) if size is None else size


def _read(
    scenario: Scenario | str | Path, plans: Plans | None, devices: tuple[int, ...], settings: Settings | None
) -> Scenario:
    if isinstance(plans, Mapping):
        raise InputError("plans: got tables beside a scenario; allowed: names of its plans, or of families")
    names = given.names(plans or ())
    if not isinstance(scenario, Scenario):
        return load(scenario, settings, names, devices)
    if names or devices or settings:
        raise InputError("plans, devices and settings are the scenario's own; allowed: give them to load()")
    return scenario


def _refuse_jobs(scenario: Scenario, jobs: int) -> None:
    """Families that were made in this process are not known to others."""
    from simfrontier.core.plan import own_families

    own = [name for name, options in scenario.plans.items() if options.family in own_families()]
    if jobs > 1 and own:
        raise InputError(f"jobs: got {jobs}, but plan {own[0]!r} is of a family of this process; allowed: 1")
