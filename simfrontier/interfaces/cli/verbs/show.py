"""`simfrontier show`: a schedule, links, routes or traffic volumes, as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simfrontier.base.errors import InputError
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.large import announce

if TYPE_CHECKING:
    from simfrontier.answers.step import MoveBytes
    from simfrontier.core.network import RouteTable
    from simfrontier.core.program import Schedule
    from simfrontier.inputs.scenario import Scenario


def show(
    scenario: Annotated[Path, typer.Argument(help="scenario file (TOML), or a schedule file (JSON)")],
    plan: Annotated[str | None, typer.Option(help="plan to show (default: the scenario's first)")] = None,
    devices: Annotated[int | None, typer.Option(help="size to show (default: the scenario's smallest)")] = None,
    set_: options.Settings = None,
    save: Annotated[Path | None, typer.Option(help="also write the schedule, or the routes, to this JSON file")] = None,
    links: Annotated[bool, typer.Option("--links", help="list the machine's links")] = False,
    routes: Annotated[
        bool, typer.Option("--routes", help="list the links on the route between each pair of devices of a node")
    ] = False,
    volumes: Annotated[
        bool, typer.Option("--volumes", help="list the bytes that each move of tensors brings into a node")
    ] = False,
    yes_large: options.YesLarge = False,
) -> None:
    """Print a schedule as text, or the machine's links or routes, or the bytes of each move."""
    from simfrontier.interfaces.cli.terminal.show import print_links, print_routes, print_volumes

    chosen = [name for name, given in (("--links", links), ("--routes", routes), ("--volumes", volumes)) if given]
    if len(chosen) > 1:
        raise InputError(f"{chosen[1]}: got it beside {chosen[0]}; allowed: one of --links, --routes, --volumes")
    if save is not None and (links or volumes):
        raise InputError(f"--save: got {str(save)!r} beside {chosen[0]}; allowed: with --routes, or for a schedule")
    if links:
        print_links(options.load(scenario, set_, None, None).machine)
    elif routes:
        loaded = options.load(scenario, set_, None, devices)
        print_routes(loaded.machine, _routes(loaded, save))
    elif scenario.suffix == ".json" and not volumes:
        of_a_scenario = {"--set": set_, "--plan": plan, "--devices": None if devices is None else str(devices)}
        options.refuse(of_a_scenario, f"for {scenario}, a schedule; allowed: only with a scenario (TOML)")
        _show(_of_file(scenario, yes_large), save)
    else:
        from simfrontier.answers.forecast import forecast_show

        loaded = options.load(scenario, set_, options.one_plan("--plan", plan), devices)
        announce(forecast_show(loaded, volumes), str(scenario), yes_large)
        name, size = next(iter(loaded.plans)), min(loaded.file.run.devices)
        if volumes:
            print_volumes(name, size, _volumes(loaded, name, size))
        else:
            _show(_of_plan(loaded, name, size), save)


def _of_file(path: Path, large: bool) -> Schedule:
    """Return the schedule of a file, also of a `large` one. Raises InputError if it is inconsistent."""
    from simfrontier.core.program import check, load

    schedule = load(path, large)
    report = check(schedule)
    if report.peak is None:
        raise InputError(f"cannot be shown: {report.findings[0]}", where=str(path))
    return schedule


def _of_plan(scenario: Scenario, plan: str, size: int) -> Schedule:
    """Return the schedule of a plan at a size, with the options that its search finds."""
    from simfrontier.answers.search import GridSearcher
    from simfrontier.answers.study import schedule_of

    return schedule_of(GridSearcher().resolved(scenario, (size,), (plan,)), plan, size)


def _show(schedule: Schedule, target: Path | None) -> None:
    from simfrontier.core.program import render, save

    if target is not None:
        save(schedule, target)
    typer.echo(render(schedule))


def _volumes(scenario: Scenario, plan: str, size: int) -> Sequence[MoveBytes]:
    """Return the bytes that each kind of move of a plan's step brings into a node."""
    from simfrontier.answers.search import GridSearcher
    from simfrontier.answers.step import moves_of
    from simfrontier.answers.study import simulated

    searcher = GridSearcher()
    scenario = searcher.resolved(scenario, (size,), (plan,))
    return moves_of(simulated(scenario.of(plan, size), searcher.schedule_cache.get(scenario, plan, size), "analytic"))


def _routes(scenario: Scenario, target: Path | None) -> RouteTable:
    """Print the routes on the nodes of the scenario's smallest size, and write them to `target` if given."""
    from simfrontier.core.network import route_table, save_routes

    machine, size = scenario.machine, min(scenario.file.run.devices)
    table = route_table(machine, -(-size // machine.devices_per_node))
    if target is not None:
        save_routes(table, target)
    return table
