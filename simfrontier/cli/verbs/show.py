"""`simfrontier show`: a schedule, or a machine's links and routes, as text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simfrontier.cli.large import announce
from simfrontier.cli.options import Settings, YesLarge, load, refuse_options, to_write
from simfrontier.errors import InputError, nearest
from simfrontier.units import written

if TYPE_CHECKING:
    from simfrontier.scenario import Scenario
    from simfrontier.schedule import Schedule

MOST_NODES = 16  # whose groups are printed


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
    chosen = [name for name, given in (("--links", links), ("--routes", routes), ("--volumes", volumes)) if given]
    if len(chosen) > 1:
        raise InputError(f"{chosen[1]}: got it beside {chosen[0]}; allowed: one of --links, --routes, --volumes")
    if save is not None and (links or volumes):
        raise InputError(f"--save: got {str(save)!r} beside {chosen[0]}; allowed: with --routes, or for a schedule")
    if links:
        _show_links(load(scenario, set_, None, None))
    elif routes:
        _show_routes(load(scenario, set_, None, devices), save)
    elif scenario.suffix == ".json" and not volumes:
        refuse_options(
            scenario, {"--set": set_, "--plan": plan, "--devices": None if devices is None else str(devices)}
        )
        _show(_of_file(scenario, yes_large), save)
    else:
        from simfrontier.forecast import forecast_show

        loaded = load(scenario, set_, plan, devices)
        announce(forecast_show(loaded, volumes), str(scenario), yes_large)
        if volumes:
            _show_volumes(loaded, plan)
        else:
            _show(_of_plan(loaded, plan), save)


def _of_file(path: Path, large: bool) -> Schedule:
    """The schedule of a file, also of a `large` one. Raises InputError where it names what is not there."""
    from simfrontier.schedule import check, load

    schedule = load(path, large)
    report = check(schedule)
    if report.peak is None:
        raise InputError(f"cannot be shown: {report.findings[0]}", where=str(path))
    return schedule


def _of_plan(scenario: Scenario, plan: str | None) -> Schedule:
    """The schedule of a plan (by default the first) at the scenario's smallest size."""
    from simfrontier.study import schedule_of
    from simfrontier.tuning import GridSearcher

    chosen, size = _plan(scenario, plan), min(scenario.file.run.devices)
    return schedule_of(GridSearcher().resolved(scenario, (size,), (chosen,)), chosen, size)


def _show(schedule: Schedule, target: Path | None) -> None:
    from simfrontier.schedule import render, save

    if target is not None:
        save(schedule, target)
    typer.echo(render(schedule))


def _show_volumes(scenario: Scenario, plan: str | None) -> None:
    """Print what each kind of move brings into a node in a step: what it needs, and what the algorithm does bring."""
    from simfrontier.analysis import moves_of
    from simfrontier.study import simulated
    from simfrontier.tuning import GridSearcher

    chosen = _plan(scenario, plan)
    size = min(scenario.file.run.devices)
    searcher = GridSearcher()
    scenario = searcher.resolved(scenario, (size,), (chosen,))
    step = simulated(scenario.of(chosen, size), searcher.schedule_cache.get(scenario, chosen, size), "analytic")
    typer.echo(f"{chosen} on {size}: bytes per step into each node")
    moves = moves_of(step)
    by = max((len(moved.algorithm) for moved in moves), default=0)
    form = f"{{:<15}} {{:<16}} {{:<18}} {{:<10}} {{:<{max(by, 7)}}} {{:>6}} {{:>10}} {{:>10}} {{:>10}}"
    typer.echo(form.format("move", "kind", "over", "codec", "by", "calls", "messages", "need", "link"))
    for moved in moves:
        sizes = (moved.message_bytes, moved.need, moved.link)
        cells = (moved.name, moved.kind, "+".join(moved.axes), moved.codec, moved.algorithm, moved.calls)
        typer.echo(form.format(*cells, *("–" if value is None else written(float(value), "bytes") for value in sizes)))
    typer.echo("need: what any algorithm must bring in; link: what this one brings in (scales and padding included).")


def _plan(scenario: Scenario, plan: str | None) -> str:
    chosen = plan or next(iter(scenario.plans))
    if "," in chosen:
        raise InputError(f"got {chosen!r}; allowed: the name of one plan", where="--plan")
    if chosen not in scenario.plans:
        raise InputError(nearest(chosen, scenario.plans), where=f"--plan {chosen}")
    return chosen


def _show_links(scenario: Scenario) -> None:
    """Print every link of a node by name, as `perturbation.links` takes them."""
    machine = scenario.machine
    typer.echo(
        f"{machine.title}: directed links of one node; nominal bandwidth, and the share that a plain copy achieves"
    )
    for link in machine.node.links:
        share = machine.link_classes[link.link_class].share
        typer.echo(f"  {link.name:<14} {link.link_class:<8} {written(link.bytes_per_s, 'bytes/s'):>10}  {share:.3f}")


def _show_routes(scenario: Scenario, target: Path | None) -> None:
    """Print the links that messages pass, once for each pair of devices of a node and for the network between nodes, at
    the scenario's smallest size; write them to `target`, for programs, if given."""
    from simfrontier.network import route_table, save_routes

    machine, size = scenario.machine, min(scenario.file.run.devices)
    table = route_table(machine, -(-size // machine.devices_per_node))
    if target is not None:
        save_routes(table, target)
    within_node = {f"{a}>{b}": way for a, row in enumerate(table.within_node) for b, way in enumerate(row) if a != b}
    out = {f"{a}>net": way for a, way in enumerate(table.to_network)}
    back = {f"net>{b}": way for b, way in enumerate(table.from_network)}
    typer.echo(f"{machine.title}: links that a message passes on {_nodes(table.num_nodes)}, in order")
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


def _nodes(count: int) -> str:
    return f"{count:,} node{'s' if count > 1 else ''}"
