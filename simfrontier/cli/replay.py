"""`simfrontier replay`: a schedule file, whoever made it, checked and then simulated on a scenario's machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import typer

from simfrontier.analysis import Exposure, exposure
from simfrontier.cli.export import notes_of
from simfrontier.cli.large import announce
from simfrontier.errors import InputError
from simfrontier.forecast import forecast_replay
from simfrontier.scenario import Scenario
from simfrontier.schedule import Peak, Schedule, check, digest, load
from simfrontier.simulation import Fidelity, SimulatedStep, fullest, simulate_step, trace_of
from simfrontier.study import neighbour_of
from simfrontier.trace import SHOWN_DIGITS, write_perfetto
from simfrontier.units import written

_PARTS = {
    "compute": "compute",
    "inter_node": "communication between nodes",
    "intra_node": "communication inside a node",
    "package": "communication inside a package",
    "codec": "encoding and reordering",
    "idle": "nothing",
}


def replay_file(
    path: Path,
    scenario: Scenario,
    fidelity: Fidelity | None,
    exact: bool,
    out: Path | None,
    as_json: bool,
    large: bool = False,
) -> int:
    """Check the file, simulate it, print where its time goes, write its trace to `out`; returns the number of findings
    (nothing is simulated where there are any). Raises InputError where the machine cannot run it, or where it is too
    large and not agreed to be `large`."""
    schedule, chosen = load(path, large), fidelity or scenario.file.run.fidelity
    announce(forecast_replay(schedule, chosen, exact), str(path), large)
    digested = digest(schedule)
    report = check(schedule)
    findings = [str(finding) for finding in report.findings]
    if findings:
        if as_json:
            typer.echo(json.dumps({"schedule": str(path), "schedule_digest": digested, "findings": findings}, indent=1))
        else:
            typer.echo(
                "\n".join([f"{path}: {len(findings)} findings, not simulated", *(f"  {each}" for each in findings)])
            )
        return len(findings)
    step = _simulated(path, schedule, scenario, chosen, exact)
    if out is not None:
        write_perfetto(trace_of(step, digested, f"{path.name} on {scenario.name}", notes=notes_of(scenario)), out)
    if as_json:
        known = {"schedule": str(path), "schedule_digest": digested, "findings": []}
        typer.echo(json.dumps(known | _row(step, report.peaks), indent=1))
    else:
        _print(path, digested, step, report.peaks, out)
    return 0


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


def _row(step: SimulatedStep, peaks: Sequence[Peak]) -> dict[str, str | int | float | bool]:
    """As the columns of results.csv are called."""
    spent, memory = exposure(step), fullest(step, peaks)
    return {
        "devices": step.schedule.mesh.num_ranks,
        "machine": step.cluster.machine.name,
        "library": step.cluster.library.name,
        "fidelity": step.fidelity,
        "step_time_s": step.step_s,
        "step_time_nominal_s": step.step_s,
        "compute_time_s": step.compute_s,
        "exposed_comm_s": step.step_s - step.compute_s,
        **{f"exposed_{part}_s": float(getattr(spent, part)) for part in _PARTS if part != "compute"},
        "peak_memory_bytes": memory.peak_bytes,
        "fits": memory.peak_bytes <= step.cluster.machine.device.hbm_bytes,
        "rank_classes": step.cluster.folding.num_rank_classes,
    }


def _print(path: Path, digested: str, step: SimulatedStep, peaks: Sequence[Peak], out: Path | None) -> None:
    row, machine = _row(step, peaks), step.cluster.machine
    typer.echo(f"{path}: sound (digest {digested[:SHOWN_DIGITS]})")
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
    """What the critical rank does with its step, what takes nothing left out."""
    parts = [(name, float(getattr(spent, part))) for part, name in _PARTS.items()]
    return [f"  {name + ':':<33}{written(s, 's'):>10} {100 * s / step_s:5.1f} %" for name, s in parts if s > 0]
