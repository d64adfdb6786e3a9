"""Python functions that simulate steps, check and export schedules, search for plans, explain steps and validate
models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from simfrontier.answers.accuracy import Validation, validate_files, validate_shipped
from simfrontier.answers.explain import Explanation, explain as explanation
from simfrontier.answers.search import GridSearcher, TuningOutcome, Value, tune as search
from simfrontier.answers.study import schedule_of, simulated
from simfrontier.base.errors import InputError, nearest, wrong
from simfrontier.base.workers import Local, Workers
from simfrontier.core.engine import Fidelity, SimulatedStep
from simfrontier.core.plan import own_families
from simfrontier.core.program import Finding, check as check_schedule, save
from simfrontier.inputs.measured import Setup
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.api import given
from simfrontier.interfaces.api.comparison import Comparison, view_of
from simfrontier.interfaces.api.scenarios import USUAL_PLANS, Plans, load, new_scenario


def simulate(
    scenario: Scenario | str | Path,
    plan: str | None = None,
    *,
    devices: int | None = None,
    fidelity: Fidelity | None = None,
    exact: bool = False,
) -> SimulatedStep:
    """Build, check and simulate one training step of a plan (default: the scenario's first plan) on a number of devices
    (default: the scenario's largest).

    `scenario`: a scenario returned by `load` or `new_scenario`, or the path of a scenario file. `fidelity`: analytic,
    flow or chunk (default: the scenario's). `exact`: simulate every rank, without folding of equal ranks. The result
    has `step_s` and `compute_s` in seconds. The step is nominal: no variation between devices, no model errors. A plan
    that leaves options open is searched first. Raises InputError for an invalid plan, size or fidelity,
    NothingFitsError if no candidate of a search fits into memory, SimfrontierError if the check of the schedule fails.
    """
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
    batch: int | str | None = None,
    settings: given.Settings | None = None,
    fidelity: Fidelity | None = None,
    exact: bool = False,
    vary: bool = False,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Simulate every plan at every size; displays a table and a chart in a notebook.

    Takes a scenario (of `load` or `new_scenario`, or the path of a file, whose `plans`, `devices` and `settings`
    may be replaced here), or a machine, a model, plans and sizes, as `new_scenario` does. `batch`: sequences of a step,
    or its tokens ("4M"), the same for all plans. `fidelity` and `exact` as in
    `simulate`. `vary`: also simulate the scenario's variations of unknown settings and degraded components.
    `jobs`: number of processes. `progress` is called with a short text after each case. Raises as `simulate` does.

    >>> compare("frontier", "gpt-13b", ["zero3", "zero-topo"], devices=[8, 64, 384])
    >>> compare("frontier", "llama-3-70b", "zero3; tp 8 pp 2; tp 8 pp 2 vp 4", devices=128, batch="4M")
    """
    sizes, chosen = given.sizes(devices), given.fidelity(fidelity)
    settings = given.settings(settings or {}, batch)
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
    """Return the given scenario, or read it if a path is given."""
    return scenario if isinstance(scenario, Scenario) else load(scenario)


def case_named(scenario: Scenario, plan: str | None, devices: int | None) -> tuple[str, int]:
    """Return the name of a plan and a number of devices; the defaults are the scenario's first plan and its largest
    size. Raises InputError if the scenario has no plan of that name."""
    name = given.name(plan) or next(iter(scenario.plans))
    size = given.size(devices)
    if name not in scenario.plans:
        raise InputError(f"plan {name!r}: {nearest(name, tuple(scenario.plans))}")
    return name, max(scenario.file.run.devices) if size is None else size


def _read(
    scenario: Scenario | str | Path, plans: Plans | None, devices: tuple[int, ...], settings: given.Settings | None
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
    """Raise InputError for several processes if the scenario uses plan families defined in this process only: worker
    processes do not know them."""
    own = [name for name, options in scenario.plans.items() if options.family in own_families()]
    if jobs > 1 and own:
        raise InputError(f"jobs: got {jobs}, but plan {own[0]!r} is of a family of this process; allowed: 1")


def check(
    scenario: Scenario | str | Path, plan: str | None = None, *, devices: int | None = None, memory: bool = True
) -> tuple[Finding, ...]:
    """Check the schedule of a plan (default: the scenario's first plan and largest size) and return the findings:
    placements, weight versions, sums, order of operations, deadlock and, with `memory`, the peak memory against the
    machine's capacity. Empty if the check passes."""
    read = read_scenario(scenario)
    name, size = case_named(read, plan, devices)
    capacity = int(read.of(name, size).machine.device.hbm_bytes) if memory else None
    return tuple(check_schedule(schedule_of(read, name, size), capacity).findings)


def export(
    scenario: Scenario | str | Path, plan: str | None = None, *, devices: int | None = None, out: str | Path
) -> Path:
    """Write a plan's schedule (default: the scenario's first plan and largest size) as the JSON file that `simfrontier
    check` and `simfrontier-real` read, and return its path. Raises InputError if it cannot be written."""
    read = read_scenario(scenario)
    name, size = case_named(read, plan, devices)
    path = Path(out)
    save(schedule_of(read, name, size), path)
    return path


def tune(
    scenario: Scenario | str | Path,
    *,
    devices: int | None = None,
    pins: Mapping[str, Value | Sequence[Value]] | None = None,
    lossy: bool | None = None,
    max_error: float | None = None,
    simulate: int | None = None,
    jobs: int = 1,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> TuningOutcome:
    """Search for the fastest plans for a scenario's machine, model and batch on a number of devices (default: the
    scenario's largest). The result has `.best`, `.why` and `.frame()`. The other arguments are those of
    `simfrontier.answers.search.tune`, which can also resume an interrupted search."""
    if pins is not None and not isinstance(pins, Mapping):
        raise InputError(wrong(pins, 'a dict of dimensions, e.g. {"tensor": [4, 8]}'), where="pins")
    return search(
        read_scenario(scenario),
        devices=given.size(devices),
        pins=pins,
        lossy=lossy,
        max_error=max_error,
        simulate=None if simulate is None else given.count("simulate", simulate),
        place=Local(jobs=given.jobs(jobs)),
        progress=progress,
    )


def explain(
    scenario: Scenario | str | Path,
    plan: str | None = None,
    *,
    devices: int | None = None,
    against: str | None = None,
    fidelity: Fidelity | None = None,
    what_if: bool = True,
    jobs: int = 1,
    progress: Callable[[str, int], None] = lambda *_: None,
) -> Explanation:
    """Explain a plan's step time. In the result, `.frame()` has the parts of the step, `.changes_frame()` the simulated
    improvements, and `.against` the comparison with the best other plan (or with the plan `against`); without a plan
    `.ranking` compares all plans. The other arguments are those of `simfrontier.answers.explain.explain`."""
    return explanation(
        read_scenario(scenario),
        given.name(plan),
        devices=given.size(devices),
        against=given.name(against, "against"),
        fidelity=given.fidelity(fidelity),
        what_if=what_if,
        place=Local(jobs=given.jobs(jobs)),
        progress=progress,
    )


def validate(
    *files: str | Path, machine: str | None = None, library: str | None = None, cross: bool = False, jobs: int = 1
) -> Validation:
    """Compare the predictions of the shipped models with measured times: the project's tables, or your own `files`
    (CSV, output of nccl-tests, rccl-tests or OSU, logs of NCCL's Inspector or of DeepSpeed's communication, dumps of
    PyTorch's flight recorder, Chrome traces of simfrontier-real; folders of these). `.frame()` of the result has a row
    per measured time, in seconds.

    `machine` and `library` apply to logs that do not name them. `cross`: also predict every row of the project's tables
    with parameters fitted without the rows of the same number of devices (takes a minute; `jobs`: processes). Raises
    InputError for a file that cannot be read, or that has no row that can be predicted.
    """
    if not files:
        if machine is not None or library is not None:
            raise InputError("machine and library: are of files of your own; allowed: beside these")
        with Workers(Local(jobs=given.jobs(jobs))) as workers:
            return validate_shipped(cross, workers)
    paths = [given.path(file, "validate", 'paths of files, e.g. validate("a.csv", "b.log")') for file in files]
    return validate_files(paths, Setup(machine=machine, library=library), None)
