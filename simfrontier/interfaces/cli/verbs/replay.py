"""`simfrontier replay`: check a schedule file and simulate it on a scenario's machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from simfrontier.answers.forecast import forecast_replay
from simfrontier.answers.step import Exposure, exposure
from simfrontier.answers.study import neighbour_of, notes_of
from simfrontier.base.errors import InputError
from simfrontier.base.units import written
from simfrontier.core.engine import Fidelity, SimulatedStep, fullest, simulate_step, trace_of
from simfrontier.core.program import Peak, Schedule, check, digest, load as load_schedule
from simfrontier.core.trace import SHOWN_DIGITS, write_perfetto
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import print_json
from simfrontier.interfaces.cli.options import announce

PARTS_IN_WORDS = {
    "compute": "compute",
    "inter_node": "communication between nodes",
    "intra_node": "communication inside a node",
    "package": "communication inside a package",
    "codec": "encoding and reordering",
    "host": "the host's code",
    "idle": "idle",
}


def replay(
    schedule: Annotated[Path, typer.Argument(help="schedule file (JSON), e.g. of simfrontier export or show --save")],
    scenario: Annotated[Path, typer.Option(help="scenario (TOML) whose machine, library and placement are used")],
    set_: options.Settings = None,
    fidelity: options.Fidelity = None,
    exact: Annotated[bool, typer.Option("--exact", help="simulate every rank, without folding equal ranks")] = False,
    out: Annotated[Path | None, typer.Option(help="also write the trace to this file")] = None,
    json: Annotated[bool, typer.Option("--json", help="print the result as JSON")] = False,
    yes_large: options.YesLarge = False,
) -> None:
    """Check a schedule file and simulate it on a scenario's machine. Exit code 1 if the check fails."""
    loaded = options.load(scenario, set_, None, None)
    program, chosen = load_schedule(schedule, yes_large), fidelity or loaded.file.run.fidelity
    announce(forecast_replay(program, chosen, exact), str(schedule), yes_large)
    digested = digest(program)
    report = check(program)
    findings = [str(finding) for finding in report.findings]
    if findings:
        if json:
            print_json({"schedule": str(schedule), "schedule_digest": digested, "findings": findings})
        else:
            typer.echo(
                "\n".join([f"{schedule}: {len(findings)} findings, not simulated", *(f"  {each}" for each in findings)])
            )
        raise typer.Exit(1)
    step = _simulated(schedule, program, loaded, chosen, exact)
    if out is not None:
        write_perfetto(trace_of(step, digested, f"{schedule.name} on {loaded.name}", notes=notes_of(loaded)), out)
    if json:
        known = {"schedule": str(schedule), "schedule_digest": digested, "findings": []}
        print_json(known | step_document(step, report.peaks))
    else:
        print_step(schedule, digested, step, report.peaks, out)


def _simulated(path: Path, schedule: Schedule, scenario: Scenario, fidelity: Fidelity, exact: bool) -> SimulatedStep:
    machine = scenario.of(str(schedule.meta["plan"]), schedule.mesh.num_ranks).machine
    where = f"{path} on {machine.name}"
    try:
        return simulate_step(
            schedule,
            machine,
            scenario.library,
            fidelity,
            scenario.file.perturbation,
            exact,
            scenario.file.run.placement,
            beside=neighbour_of(scenario, schedule.mesh.num_ranks),
        )
    except InputError as error:
        raise error.within(where) from None


def step_document(step: SimulatedStep, peaks: Sequence[Peak]) -> dict[str, str | int | float | bool]:
    """Return the results of a step, its parts and its memory, with the column names of results.csv."""
    spent, memory = exposure(step), fullest(step, peaks)
    return {
        "devices": step.schedule.mesh.num_ranks,
        "machine": step.pricing.machine.name,
        "library": step.pricing.library.name,
        "fidelity": step.fidelity,
        "step_time_s": step.step_s,
        "step_time_nominal_s": step.step_s,
        "compute_time_s": step.compute_s,
        "exposed_comm_s": step.step_s - step.compute_s,
        **{f"exposed_{part}_s": float(getattr(spent, part)) for part in PARTS_IN_WORDS if part != "compute"},
        "peak_memory_bytes": memory.peak_bytes,
        "fits": memory.peak_bytes <= step.pricing.machine.device.hbm_bytes,
        "rank_classes": step.pricing.folding.num_rank_classes,
    }


def print_step(path: Path, digested: str, step: SimulatedStep, peaks: Sequence[Peak], out: Path | None) -> None:
    """Print a step, the parts of the step on its critical rank, and the memory; `out`: the trace file that was
    written."""
    row, machine = step_document(step, peaks), step.pricing.machine
    typer.echo(f"{path}: passed (digest {digested[:SHOWN_DIGITS]})")
    typer.echo(
        f"{row['devices']:,} devices of {machine.title}, library {row['library']}, {row['fidelity']}: "
        f"{written(step.step_s, 's')} per step"
    )
    typer.echo("\n".join(_spent(exposure(step), step.step_s)))
    need, have = (written(float(size), "bytes") for size in (row["peak_memory_bytes"], machine.device.hbm_bytes))
    typer.echo(f"  memory: {need} at most, of {have}{'' if row['fits'] else ': does not fit'}")
    if out is not None:
        typer.echo(f"Written: {out} (also for Perfetto)")


def _spent(spent: Exposure, step_s: float) -> list[str]:
    """Return a text line for each non-zero part of the step on the critical rank."""
    parts = [(name, float(getattr(spent, part))) for part, name in PARTS_IN_WORDS.items()]
    return [f"  {name + ':':<33}{written(s, 's'):>10} {100 * s / step_s:5.1f} %" for name, s in parts if s > 0]
