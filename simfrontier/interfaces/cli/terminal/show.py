"""Output of `show`: links, routes and volumes of moves."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from simfrontier.answers.step import MoveBytes
from simfrontier.base.units import counted, written
from simfrontier.core.machine import Machine
from simfrontier.core.network import RouteTable
from simfrontier.interfaces.cli.console import console, grid

LEAST_WIDTH = 120  # names of moves and sizes are no use in pieces
MOST_NODES = 16  # whose groups are printed


def print_volumes(plan: str, devices: int, moves: Sequence[MoveBytes]) -> None:
    """Print the bytes that each kind of move needs to bring into a node in a step, and those that the algorithm
    brings."""
    heads = ("move", "kind", "over", "codec", "by", "calls", "messages", "need", "link")
    rows = []
    for moved in moves:
        sizes = (moved.message_bytes, moved.need, moved.link)
        cells = (moved.name, moved.kind, "+".join(moved.axes), moved.codec, moved.algorithm, f"{moved.calls}")
        rows.append((*cells, *("–" if size is None else written(float(size), "bytes") for size in sizes)))
    table = grid(f"{plan} on {devices}: bytes per step into each node", heads, rows, left=heads[:5])
    screen = console()
    screen.width = max(screen.width, LEAST_WIDTH)
    screen.print(table)
    typer.echo("need: what any algorithm must bring in; link: what this one brings in (scales and padding included).")


def print_links(machine: Machine) -> None:
    """Print every link of a node by the name that `perturbation.links` takes."""
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
