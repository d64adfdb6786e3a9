"""Check, export, search, explanation and validation from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simfrontier.base.errors import InputError, wrong
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.api import given
from simfrontier.interfaces.api.steps import case_named, read_scenario

if TYPE_CHECKING:
    from simfrontier.answers.accuracy import Validation
    from simfrontier.answers.explain import Explanation
    from simfrontier.answers.search import TuningOutcome, Value
    from simfrontier.core.engine import Fidelity
    from simfrontier.core.program import Finding


def check(
    scenario: Scenario | str | Path, plan: str | None = None, *, devices: int | None = None, memory: bool = True
) -> tuple[Finding, ...]:
    """Return the findings of the check of a plan's schedule (default: the scenario's first plan and largest size):
    placements, weight versions, sums, order, deadlock and, with `memory`, the peak against the machine's capacity.
    Empty if the check passes."""
    from simfrontier.answers.study import schedule_of
    from simfrontier.core.program import check as check_schedule

    read = read_scenario(scenario)
    name, size = case_named(read, plan, devices)
    capacity = int(read.of(name, size).machine.device.hbm_bytes) if memory else None
    return tuple(check_schedule(schedule_of(read, name, size), capacity).findings)


def export(
    scenario: Scenario | str | Path, plan: str | None = None, *, devices: int | None = None, out: str | Path
) -> Path:
    """Write a plan's schedule (default: the scenario's first plan and largest size) as the JSON file that `simfrontier
    check` and `simfrontier-real` read, and return its path. Raises InputError if it cannot be written."""
    from simfrontier.answers.study import schedule_of
    from simfrontier.core.program import save

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
    """Search for the fastest plans for a scenario's machine, model and batch at a size (default: its largest). The
    result has `.best`, `.why` and `.frame()`. Other arguments as for `simfrontier.answers.search.tune`, which can also
    resume a stopped search."""
    from simfrontier.answers.search import tune as search
    from simfrontier.base.workers import Local

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
    """Explain a plan's step time: `.frame()` has its parts, `.changes_frame()` the simulated improvements, `.against`
    the comparison with the best of the others (or another plan); without a plan `.ranking` compares all. Other
    arguments as for `simfrontier.answers.explain.explain`."""
    from simfrontier.answers.explain import explain as explanation
    from simfrontier.base.workers import Local

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
    """Compare the shipped models with measured times: the project's tables, or `files` of your own (CSV, output of
    nccl-tests, rccl-tests or OSU, logs of NCCL's Inspector or DeepSpeed's communication, dumps of PyTorch's flight
    recorder, Chrome traces of simfrontier-real; folders of these). `.frame()` has a row per measured time, in seconds.

    `machine` and `library` are those of logs that do not say. `cross`: fitted rows of the project's tables as fits
    predict them that have not seen their number of devices (a minute; `jobs`: processes). Raises InputError for a file
    that cannot be read, or of which nothing can be predicted.
    """
    from simfrontier.answers.accuracy import validate_files, validate_shipped
    from simfrontier.base.workers import Local, Workers
    from simfrontier.inputs.measured import Setup

    if not files:
        if machine is not None or library is not None:
            raise InputError("machine and library: are of files of your own; allowed: beside these")
        with Workers(Local(jobs=given.jobs(jobs))) as workers:
            return validate_shipped(cross, workers)
    paths = [given.path(file, "validate", 'paths of files, e.g. validate("a.csv", "b.log")') for file in files]
    return validate_files(paths, Setup(machine=machine, library=library), None)
