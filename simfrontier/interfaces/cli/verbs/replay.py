"""`simfrontier replay`: check a schedule file and simulate it on a scenario's machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simfrontier.base.errors import InputError
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import print_json
from simfrontier.interfaces.cli.large import announce

if TYPE_CHECKING:
    from simfrontier.core.engine import Fidelity, SimulatedStep
    from simfrontier.core.program import Schedule
    from simfrontier.inputs.scenario import Scenario


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
    from simfrontier.answers.forecast import forecast_replay
    from simfrontier.answers.study import notes_of
    from simfrontier.core.engine import trace_of
    from simfrontier.core.program import check, digest, load as load_schedule
    from simfrontier.core.trace import write_perfetto
    from simfrontier.interfaces.cli.terminal.replay import print_step, step_document

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
    from simfrontier.answers.study import neighbour_of
    from simfrontier.core.engine import simulate_step

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
