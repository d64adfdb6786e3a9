"""`simfrontier emulate`: a scenario's plans simulated, and run for real in the emulated machine, side by side."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import typer

from simfrontier.base.errors import InputError, SimfrontierError, nearest
from simfrontier.base.wholefile import ensure_writable
from simfrontier.inputs.scenario import Scenario
from simfrontier_extras.emulation.findings import report
from simfrontier_extras.emulation.jobs import JOBS, EmulateSettings, prepare
from simfrontier_extras.emulation.scenario_keys import table_of


def emulate(scenario: Scenario, settings: EmulateSettings, out: Path, as_json: bool) -> bool:
    """Simulate, run, compare; whether all limits hold. Raises InputError where the scenario is none of an emulation,
    and SimfrontierError where the run failed."""
    if table_of(scenario) is None:
        keys = "{ scale, packet_bytes, burst_bytes }"
        example = "simfrontier_extras/emulation/scenarios/emulate.toml"
        text = f"missing; allowed: a table {keys}, as in {example}"
        raise InputError(text, where=scenario.where, key=("emulation",))
    _refuse_changes(scenario)
    wires = [wire.name for wire in scenario.machine.node.links]
    if settings.slow_wire not in wires:
        raise InputError(
            f"a node of {scenario.machine.name}: got {settings.slow_wire!r}; {nearest(settings.slow_wire, wires)}",
            where="--slow",
        )
    ensure_writable(out)
    size = max(scenario.file.run.devices)
    typer.echo(f"Simulating {', '.join(scenario.plans)} and single collectives on {size} devices", err=as_json)
    prepare(scenario, settings, out)
    typer.echo(f"Running the same schedules on {size} gloo ranks in network namespaces", err=as_json)
    _run(out / JOBS)
    return report(settings, out, as_json)


def _refuse_changes(scenario: Scenario) -> None:
    """Raise InputError for what single messages do not know, or the emulated machine does not do."""
    if scenario.file.perturbation.is_timed:
        text = "got troubles with times; allowed: some that always are: the wire of --slow changes within a step"
        raise InputError(text, where=scenario.where, key=("perturbation",))
    if scenario.file.perturbation.calls_differ:
        text = "got calls that differ; allowed: devices and networks that do"
        raise InputError(text, where=scenario.where, key=("perturbation", "spread"))
    if scenario.file.neighbour is not None:
        raise InputError("no other job is emulated; allowed: none", where=scenario.where, key=("neighbour",))


def _run(jobs: Path) -> None:
    """The real half, which reports its own errors and ends with this process."""
    command = [sys.executable, "-m", "simfrontier_real", "emulate", str(jobs)]
    done = subprocess.run(command, check=False, env={**os.environ, "SIMFRONTIER_STARTED_BY": str(os.getpid())})
    if done.returncode >= 128:  # stopped by a signal, which is no answer
        raise typer.Exit(done.returncode)
    if done.returncode:
        error = InputError if done.returncode == InputError.exit_code else SimfrontierError
        raise error(f"the run in the emulated machine ended with {done.returncode}; what it said is above")
