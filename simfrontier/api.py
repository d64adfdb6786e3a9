"""The way in from Python: load a scenario, simulate one plan of it, compare all. What simulates is imported when it is
called.

    import simfrontier as sf

    scenario = sf.load("scenarios/frontier-20b.toml", devices=(64, 384))
    step = sf.simulate(scenario, "zero-topo", devices=384)
    step.step_s                                   # seconds
    sf.compare(scenario).frame()                  # the rows of results.csv
    sf.tune(scenario, devices=64).best
    sf.explain(scenario, "zero-topo", against="zero3").frame()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfrontier.errors import InputError, nearest
from simfrontier.scenario import Scenario, load_scenario

if TYPE_CHECKING:
    from simfrontier.simulation import Fidelity, SimulatedStep
    from simfrontier.study import Study


def load(
    path: str | Path,
    settings: Mapping[str, Any] | None = None,
    plans: tuple[str, ...] = (),
    devices: tuple[int, ...] = (),
) -> Scenario:
    """Read and check a scenario file (TOML). `settings` (dotted key → value), `plans` and `devices` replace what it
    says. Raises InputError: one line that names the file, the key, what was got and what is allowed."""
    return load_scenario(path, settings, plans, devices)


def simulate(
    scenario: Scenario,
    plan: str | None = None,
    *,
    devices: int | None = None,
    fidelity: Fidelity | None = None,
    exact: bool = False,
) -> SimulatedStep:
    """One step of a plan (default: the scenario's first) at a size (default: its largest): built, checked, simulated.

    `fidelity`: analytic, flow or chunk (default: the scenario's). `exact`: every rank by itself, none folded with those
    that are alike. Times of the step are in seconds, sizes in bytes. A plan that leaves options open is searched first.
    Raises InputError for a plan, size or fidelity that cannot be, NothingFitsError where no candidate of a search fits
    into memory, SimfrontierError if the check of the schedule finds anything.
    """
    from simfrontier.study import simulated
    from simfrontier.tuning import GridSearcher

    name = next(iter(scenario.plans)) if plan is None else plan
    if name not in scenario.plans:
        raise InputError(f"plan {name!r}: {nearest(name, tuple(scenario.plans))}")
    size = max(scenario.file.run.devices) if devices is None else devices
    searcher = GridSearcher()
    scenario = searcher.resolved(scenario, (size,), (name,))
    built = searcher.schedule_cache.get(scenario, name, size)
    return simulated(scenario, built, fidelity or scenario.file.run.fidelity, exact)


def compare(
    scenario: Scenario,
    *,
    fidelity: Fidelity | None = None,
    exact: bool = False,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> Study:
    """Every plan of a scenario at each of its sizes, simulated on `jobs` processes; `fidelity` and `exact` as in
    `simulate`. `progress` is called with a short text as each case ends. Raises as `simulate` does."""
    from simfrontier.study import run_study
    from simfrontier.tuning import GridSearcher

    return run_study(GridSearcher().complete(scenario), fidelity, exact, jobs, progress)
