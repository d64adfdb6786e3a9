"""Commands for schedules: `show`, `check`, `export` and `replay`, with their options."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from simfrontier.cli.options import (
    Devices,
    FidelityOption,
    Plans,
    ScenarioArgument,
    Settings,
    YesLarge,
    fidelity_of,
    load,
    refuse_options,
    to_write,
)
from simfrontier.errors import InputError


def show(
    scenario: Annotated[Path, typer.Argument(help="scenario file (TOML), or a schedule file (JSON)")],
    plan: Annotated[str | None, typer.Option(help="plan to show (default: the scenario's first)")] = None,
    devices: Annotated[int | None, typer.Option(help="size to show (default: the scenario's smallest)")] = None,
    set_: Settings = None,
    save: Annotated[
        Path | None, to_write("--save", "also write the schedule, or the routes, to this JSON file")
    ] = None,
    links: Annotated[bool, typer.Option("--links", help="list the machine's links instead")] = False,
    routes: Annotated[
        bool, typer.Option("--routes", help="list the links that messages pass instead, by pair of devices of a node")
    ] = False,
    volumes: Annotated[bool, typer.Option("--volumes", help="list what each move brings into a node instead")] = False,
    yes_large: YesLarge = False,
) -> None:
    """Print a schedule that a person can read, or what an option names instead of it."""
    from simfrontier.cli.large import announce
    from simfrontier.cli.show import show_file, show_links, show_routes, show_schedule, show_volumes

    size = None if devices is None else str(devices)
    chosen = [name for name, given in (("--links", links), ("--routes", routes), ("--volumes", volumes)) if given]
    if len(chosen) > 1:
        raise InputError(f"{chosen[1]}: got it beside {chosen[0]}; allowed: one of --links, --routes, --volumes")
    if save is not None and (links or volumes):
        raise InputError(f"--save: got {str(save)!r} beside {chosen[0]}; allowed: with --routes, or for a schedule")
    if links:
        show_links(load(scenario, set_, None, None))
    elif routes:
        show_routes(load(scenario, set_, None, size), save)
    elif scenario.suffix == ".json" and not volumes:
        refuse_options(scenario, {"--set": set_, "--plan": plan, "--devices": size})
        show_file(scenario, save, yes_large)
    else:
        from simfrontier.forecast import forecast_show

        loaded = load(scenario, set_, plan, size)
        announce(forecast_show(loaded, volumes), str(scenario), yes_large)
        if volumes:
            show_volumes(loaded, plan)
        else:
            show_schedule(loaded, plan, save)


def check(
    scenario: Annotated[Path, typer.Argument(help="schedule (JSON), or scenario (TOML): every plan at every size")],
    set_: Settings = None,
    plans: Plans = None,
    devices: Devices = None,
    capacity: Annotated[float | None, typer.Option(help="bytes of memory per device (default: the machine's)")] = None,
    json: Annotated[bool, typer.Option("--json", help="print the findings as JSON")] = False,
    yes_large: YesLarge = False,
) -> None:
    """Check schedules: placements, versions, sums, order, deadlock, memory. Exit code 1 if there is a finding."""
    from simfrontier.cli.check import check_file, check_scenario

    if capacity is not None and not 0 < capacity < math.inf:
        raise InputError(f"--capacity: got {capacity}; allowed: a number of bytes greater than 0, e.g. 64e9")
    if scenario.suffix == ".json":
        refuse_options(scenario, {"--set": set_, "--plans": plans, "--devices": devices})
        count = check_file(scenario, capacity, json, yes_large)
    else:
        from simfrontier.cli.large import announce
        from simfrontier.forecast import forecast_check

        loaded = load(scenario, set_, plans, devices)
        announce(forecast_check(loaded), str(scenario), yes_large)
        count = check_scenario(loaded, capacity, json)
    raise typer.Exit(1 if count else 0)


def export(
    scenario: ScenarioArgument,
    out: Annotated[Path, to_write("--out", "folder for schedule-PLAN.json, trace-PLAN.json, or the files of --format")],
    set_: Settings = None,
    plans: Plans = None,
    devices: Annotated[int | None, typer.Option(help="size to export (default: the scenario's largest)")] = None,
    fidelity: FidelityOption = None,
    exact: Annotated[bool, typer.Option("--exact", help="every rank by itself: no folding of what is alike")] = False,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            help="simfrontier: schedules and traces; kineto: PyTorch's traces; of extras: chakra, msccl, goal",
        ),
    ] = "simfrontier",
    yes_large: YesLarge = False,
) -> None:
    """Write the schedule of every plan at one size, and the trace of its simulated step with all ranks; with
    --fidelity chunk also how its collectives are lowered, and the bytes of every link."""
    from simfrontier.cli.export import export_scenario
    from simfrontier.cli.large import announce
    from simfrontier.forecast import forecast_export

    size = None if devices is None else str(devices)
    loaded, chosen = load(scenario, set_, plans, size), fidelity_of(fidelity)
    announce(forecast_export(loaded, chosen, exact), str(scenario), yes_large)
    export_scenario(loaded, out, chosen, exact, format_)


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
    from simfrontier.cli.replay import replay_file

    loaded = load(scenario, set_, None, None)
    count = replay_file(schedule, loaded, fidelity_of(fidelity), exact, out, json, yes_large)
    raise typer.Exit(1 if count else 0)
