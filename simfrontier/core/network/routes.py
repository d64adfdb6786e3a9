"""Routes: the links that a message passes from one device of a job to another."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from simfrontier.base.arrays import Ints
from simfrontier.base.wholefile import write_json
from simfrontier.core.machine import Link, LinkClass, Machine
from simfrontier.core.network.fabric import Fabric
from simfrontier.core.network.groups import groups_of_job
from simfrontier.core.network.pools import pools_of


def route(fabric: Fabric, source: int, target: int) -> tuple[int, ...]:
    """Return the ids of the links on the path of a message from device `source` to device `target`, in order; () if
    they are equal.

    Between dragonfly groups the path uses the direct pool, without the share of traffic through a third group that
    fluid patterns include. Between leaves of a fat tree the path uses the uplink of the source's leaf and the downlink
    of the target's leaf.
    """
    machine, per_node = fabric.machine, fabric.machine.devices_per_node
    (a, here), (b, there) = divmod(source, per_node), divmod(target, per_node)
    first, last = a * fabric.wires_per_node, b * fabric.wires_per_node
    if a == b:
        return tuple(first + wire for wire in machine.node.route(here, there))
    start, end = fabric.group_of_node[[a, b]].tolist()
    pools = tuple(fabric.pool_base + pool for pool in fabric.pools.route(start, end))
    up = tuple(first + wire for wire in machine.node.to_network(here))
    down = tuple(last + wire for wire in machine.node.from_network(there))
    return (*up, *pools, *down)


FORMAT: Final = "simfrontier.routes"
VERSION: Final = 1
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenGroups:
    """Pools on the path of a message between nodes in two different groups a and b: `route` lists the names of the
    pools, with {a} and {b} in place of the group numbers. Node i is in group i // nodes_per_group, or, if the job's
    nodes are placed otherwise, in group_of_node[i] [num_nodes]. Of the traffic of collectives and exchanges at fidelity
    `flow`, `nonminimal_share` passes through a third group; single messages never do."""

    nodes_per_group: int
    num_groups: int
    link_class: str
    bytes_per_s: float
    route: Names
    nonminimal_share: float
    group_of_node: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteTable:
    """Table of all routes: the links that a message passes, in order, by their names within a node.

    within_node   [a][b] from device a to device b of one node, () if a == b
    to_network    [a] from device a to the switch; empty if there is no NIC
    from_network  [b] from the switch to device b
    between       pools between groups of nodes; None if one switch connects all of the job's nodes

    A message between nodes passes to_network[a] of the source node, `between` if the groups of the two nodes differ,
    and from_network[b] of the target node. Rates of links are nominal and per direction, without a scenario's
    `perturbation`.
    """

    machine: str
    num_nodes: int
    devices_per_node: int
    links: tuple[Link, ...]
    link_classes: tuple[LinkClass, ...]
    within_node: tuple[tuple[Names, ...], ...]
    to_network: tuple[Names, ...]
    from_network: tuple[Names, ...]
    between: BetweenGroups | None


def route_table(machine: Machine, num_nodes: int) -> RouteTable:
    """Return the table of all routes of a job on `num_nodes` nodes of the machine."""
    node, group_of = machine.node, groups_of_job(machine, num_nodes)
    between = _between(machine, group_of)
    used = dict.fromkeys(link.link_class for link in node.links)
    if between is not None:
        used[between.link_class] = None
    return RouteTable(
        machine=machine.name,
        num_nodes=num_nodes,
        devices_per_node=machine.devices_per_node,
        links=node.links,
        link_classes=tuple(machine.link_classes[name] for name in used),
        within_node=tuple(tuple(_named(machine, route) for route in routes) for routes in node.routes),
        to_network=tuple(_named(machine, route) for route in node.routes_out),
        from_network=tuple(_named(machine, route) for route in node.routes_in),
        between=between,
    )


def _named(machine: Machine, route: tuple[int, ...]) -> Names:
    return tuple(machine.node.links[link].name for link in route)


def _between(machine: Machine, group_of: Ints) -> BetweenGroups | None:
    pools = pools_of(machine, group_of)
    if not pools.num_groups:
        return None
    fly, in_order = machine.dragonfly, (group_of == np.arange(len(group_of)) // pools.nodes_per_group).all()
    goes_round = fly is not None and pools.num_groups > 2
    return BetweenGroups(
        nodes_per_group=pools.nodes_per_group,
        num_groups=pools.num_groups,
        link_class=pools.link_class,
        bytes_per_s=pools.bytes_per_s,
        route=pools.route_names,
        nonminimal_share=fly.nonminimal_share if fly is not None and goes_round else 0.0,
        group_of_node=None if in_order else tuple(group_of.tolist()),
    )


def save_routes(table: RouteTable, path: Path) -> None:
    """Write the table as JSON, atomically. Raises InputError if it cannot be written."""
    form: dict[str, Any] = {"format": FORMAT, "version": VERSION, **asdict(table)}
    write_json(form, path)
