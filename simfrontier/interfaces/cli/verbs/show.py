"""`simfrontier show`: a schedule, links, routes or traffic volumes, as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from simfrontier.answers.forecast import forecast_show
from simfrontier.answers.search import GridSearcher
from simfrontier.answers.step import MoveBytes, moves_of
from simfrontier.answers.study import schedule_of, simulated
from simfrontier.base.errors import InputError
from simfrontier.base.units import counted, written
from simfrontier.core.machine import Machine
from simfrontier.core.network import RouteTable, route_table, save_routes
from simfrontier.core.program import Schedule, check, load, render, save
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import console
from simfrontier.interfaces.cli.options import announce
from simfrontier.interfaces.report.table import Table

LEAST_WIDTH = 120  # names of moves and sizes are no use in pieces
MOST_NODES = 16  # whose groups are printed


def show(
    scenario: Annotated[Path, typer.Argument(help="scenario file (TOML) or name, or a schedule file (JSON)")],
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
        loaded = options.load(scenario, set_, options.one_plan("--plan", plan), devices)
        announce(forecast_show(loaded, volumes), str(scenario), yes_large)
        name, size = next(iter(loaded.plans)), min(loaded.file.run.devices)
        if volumes:
            print_volumes(name, size, _volumes(loaded, name, size))
        else:
            found = GridSearcher().resolved(loaded, (size,), (name,))
            _show(schedule_of(found, name, size), save)


def _of_file(path: Path, large: bool) -> Schedule:
    """Read a schedule file, even a `large` one. Raises InputError if the schedule is inconsistent."""
    schedule = load(path, large)
    report = check(schedule)
    if report.peak is None:
        raise InputError(f"cannot be shown: {report.findings[0]}", where=str(path))
    return schedule


def _show(schedule: Schedule, target: Path | None) -> None:
    if target is not None:
        save(schedule, target)
    typer.echo(render(schedule))


def _volumes(scenario: Scenario, plan: str, size: int) -> Sequence[MoveBytes]:
    """Return the bytes that each kind of data movement of a plan's step brings into a node."""
    searcher = GridSearcher()
    scenario = searcher.resolved(scenario, (size,), (plan,))
    return moves_of(simulated(scenario.of(plan, size), searcher.schedule_cache.get(scenario, plan, size), "analytic"))


def _routes(scenario: Scenario, target: Path | None) -> RouteTable:
    """Print the routes on the nodes of the scenario's smallest size, and write them to `target` if given."""
    machine, size = scenario.machine, min(scenario.file.run.devices)
    table = route_table(machine, -(-size // machine.devices_per_node))
    if target is not None:
        save_routes(table, target)
    return table


def print_volumes(plan: str, devices: int, moves: Sequence[MoveBytes]) -> None:
    """Print for each kind of data movement in a step the minimum number of bytes into a node, and the number with the
    chosen algorithm."""
    heads = ("move", "kind", "over", "codec", "by", "calls", "messages", "need", "link")
    rows = []
    for moved in moves:
        sizes = (moved.message_bytes, moved.need, moved.link)
        cells = (moved.name, moved.kind, "+".join(moved.axes), moved.codec, moved.algorithm, f"{moved.calls}")
        rows.append((*cells, *("–" if size is None else written(float(size), "bytes") for size in sizes)))
    table = Table(f"{plan} on {devices}: bytes per step into each node", heads, rows, left=heads[:5])
    screen = console()
    screen.width = max(screen.width, LEAST_WIDTH)
    screen.print(table)
    typer.echo("need: what any algorithm must bring in; link: what this one brings in (scales and padding included).")


def print_links(machine: Machine) -> None:
    """Print every link of a node by its name in `perturbation.links`."""
    typer.echo(
        f"{machine.title}: directed links of one node; nominal bandwidth, and the share that a plain copy achieves"
    )
    for link in machine.node.links:
        share = machine.link_classes[link.link_class].share
        typer.echo(f"  {link.name:<14} {link.link_class:<8} {written(link.bytes_per_s, 'bytes/s'):>10}  {share:.3f}")


def print_routes(machine: Machine, table: RouteTable) -> None:
    """Print the links on the route between each pair of devices of a node, and of the network between nodes."""
    within_node = {f"{a}>{b}": way for a, row in enumerate(table.within_node) for b, way in enumerate(row) if a != b}
    out = {f"{a}>net": way for a, way in enumerate(table.to_network)}
    back = {f"net>{b}": way for b, way in enumerate(table.from_network)}
    typer.echo(f"{machine.title}: links that a message passes on {counted(table.num_nodes, 'node')}, in order")
    for title, part in (("within a node", within_node), ("to the network", out), ("from the network", back)):
        if part:
            typer.echo(f"{title}:")
        for pair, way in part.items():
            typer.echo(f"  {pair:<8} {', '.join(way)}")
    between = table.between
    if between is not None:
        groups = f"{between.num_groups} groups of {between.nodes_per_group} nodes, {{a}} and {{b}}"
        typer.echo(f"between the two, where the nodes are in two of {groups}:")
        typer.echo(f"  {'{a}>{b}':<8} {', '.join(between.route)} ({written(between.bytes_per_s, 'bytes/s')} each)")
        if between.group_of_node is not None:
            some = ", ".join(map(str, between.group_of_node[:MOST_NODES]))
            more = ", ... (all: --save FILE)" if table.num_nodes > MOST_NODES else ""
            typer.echo(f"  nodes 0 to {table.num_nodes - 1} are in groups {some}{more}")
        if between.nonminimal_share:
            typer.echo(
                f"  of traffic at fidelity flow, a share of {between.nonminimal_share:g} by way of a third group"
            )
