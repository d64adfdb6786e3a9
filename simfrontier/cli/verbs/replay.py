"""`simfrontier replay`: a schedule file, whoever made it, checked and then simulated on a scenario's machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simfrontier.cli.console import print_json
from simfrontier.cli.large import announce
from simfrontier.cli.options import FidelityOption, Settings, YesLarge, fidelity_of, load, to_write
from simfrontier.errors import InputError
from simfrontier.trace import SHOWN_DIGITS
from simfrontier.units import written

if TYPE_CHECKING:
    from simfrontier.analysis import Exposure
    from simfrontier.scenario import Scenario
    from simfrontier.schedule import Peak, Schedule
    from simfrontier.simulation import Fidelity, SimulatedStep

_PARTS = {
    "compute": "compute",
    "inter_node": "communication between nodes",
    "intra_node": "communication inside a node",
    "package": "communication inside a package",
    "codec": "encoding and reordering",
    "idle": "nothing",
}


def replay(
    schedule: Annotated[Path, typer.Argument(help="schedule file (JSON), e.g. of simfrontier export or show --save")],
    scenario: Annotated[Path, typer.Option(help="scenario (TOML) whose machine, library and placement are used")],
    set_: Settings = None,
    fidelity: FidelityOption = None,
    exact: Annotated[bool, typer.Option("--exact", help="every rank by itself: no folding of what is alike")] = False,
    out: Annotated[Path | None, to_write("--out", "also write the trace to this file")] = None,
    json: Annotated[bool, typer.Option("--json", help="print the result as JSON")] = False,
    yes_large: YesLarge = False,
) -> None:
    """Check a schedule file and simulate it on a scenario's machine. Exit code 1 if the check has a finding."""
    from simfrontier.forecast import forecast_replay
    from simfrontier.schedule import check, digest, load as load_schedule
    from simfrontier.simulation import trace_of
    from simfrontier.study import notes_of
    from simfrontier.trace import write_perfetto

    loaded = load(scenario, set_, None, None)
    program, chosen = load_schedule(schedule, yes_large), fidelity_of(fidelity) or loaded.file.run.fidelity
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
        print_json(known | _row(step, report.peaks))
    else:
        _print(schedule, digested, step, report.peaks, out)


def _simulated(path: Path, schedule: Schedule, scenario: Scenario, fidelity: Fidelity, exact: bool) -> SimulatedStep:
    from simfrontier.simulation import simulate_step
    from simfrontier.study import neighbour_of

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
    from simfrontier.analysis import exposure
    from simfrontier.simulation import fullest

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
    from simfrontier.analysis import exposure

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
