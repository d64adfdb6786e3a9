"""The nodes of a scenario's job: its table `nodes`, and the files that it names, on the scenario's machine."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from simfrontier.base.errors import InputError, nearest, shown
from simfrontier.core.machine import JobNodes, Machine, expanded, read_topology
from simfrontier.inputs.scenario.form import NodesTable

TABLE = "nodes"


def on_nodes(table: NodesTable, machine: Machine, folder: Path) -> JobNodes:
    """Raises InputError at a key of the table, or with the line of the topology's file that is wrong."""
    _refuse_unused(table)
    names, group_of = _topology(table, machine, folder)
    num_nodes = len(names) or machine.num_nodes
    listed = _listed(table, names, num_nodes)
    for node, times in Counter(listed).items():
        if times > 1:
            raise InputError(
                f"got node {names[node] if names else node} twice, allowed: every node once", key=(TABLE, "list")
            )
    placement = "list" if listed else table.placement
    named = tuple(names[node] for node in listed) if names else ()
    return JobNodes(placement=placement, seed=table.seed, listed=listed, group_of=group_of, names=named)


def refuse_size(machine: Machine, num_devices: int) -> None:
    """Raise InputError where a job of that size has not the nodes that it needs."""
    job, needed = machine.job_nodes, -(-num_devices // machine.devices_per_node)
    if job.placement == "list" and len(job.listed) < needed:
        text = f"got {len(job.listed)} node{'s' if len(job.listed) > 1 else ''}, allowed: {needed} or more"
        raise InputError(f"{text} ({machine.devices_per_node} devices on each)", key=(TABLE, "list"))
    if job.group_of and len(job.group_of) < needed:
        text = f"has {len(job.group_of)} nodes; {num_devices} devices need {needed}"
        raise InputError(text, key=(TABLE, "topology"))


def _refuse_unused(table: NodesTable) -> None:
    """A key that would be passed over, or is missing."""
    if table.placement == "list" and table.list is None:
        raise InputError('missing, needed because nodes.placement is "list"', key=(TABLE, "list"))
    if table.placement in ("spread", "random") and table.list is not None:
        raise InputError(
            f'not allowed beside nodes.placement = "{table.placement}"; allowed: "list"', key=(TABLE, "list")
        )
    if table.topology is None and table.group_level:
        raise InputError("of the switches of nodes.topology, which is missing", key=(TABLE, "group_level"))


def _topology(table: NodesTable, machine: Machine, folder: Path) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Names of the machine's nodes and the group of each; empty without a topology."""
    if table.topology is None:
        return (), ()
    beside = folder / table.topology
    try:
        read = read_topology(beside if os.path.lexists(beside) else Path(table.topology))
    except InputError as error:
        raise error.within(key=(TABLE, "topology")) from None
    group_of = read.groups(table.group_level)
    count = max(group_of) + 1
    fly, tree = machine.dragonfly, machine.fat_tree
    if fly is None and tree is None:
        raise InputError(f"{machine.name} has no groups or leaves; allowed: none", key=(TABLE, "topology"))
    has, things = (fly.num_groups, "groups") if fly is not None else (tree.num_leaves if tree else 0, "leaves")
    if count > has:
        text = f"{read.where} has {count} switches at level {table.group_level}; {machine.name} has {has} {things}"
        raise InputError(text, key=(TABLE, "topology"))
    most = fly.nodes_per_group if fly is not None else tree.nodes_per_leaf if tree else machine.num_nodes
    for group, num_nodes in Counter(group_of).items():
        if num_nodes > most:
            switch = shown(read.switches(table.group_level)[group])
            text = f"{read.where} has {num_nodes} nodes below {switch}; {things} of {machine.name} have up to {most}"
            raise InputError(text, key=(TABLE, "topology"))
    if len(group_of) > machine.num_nodes:
        text = f"{read.where} has {len(group_of)} nodes; {machine.name} has {machine.num_nodes}"
        raise InputError(text, key=(TABLE, "topology"))
    return tuple(read.switch_of), group_of


def _listed(table: NodesTable, names: Sequence[str], num_nodes: int) -> tuple[int, ...]:
    """Numbers of the nodes of the list."""
    if table.list is None:
        return ()
    if isinstance(table.list, str):
        if not names:
            text = f"got {shown(table.list)}; names need nodes.topology, which says where they are; allowed: numbers"
            raise InputError(text, key=(TABLE, "list"))
        number = {name: place for place, name in enumerate(names)}
        try:
            wanted = expanded(table.list)
        except InputError as error:
            raise error.within(key=(TABLE, "list")) from None
        for name in wanted:
            if name not in number:
                text = f"{shown(name)} is no node of {table.topology}; {nearest(name, names)}"
                raise InputError(text, key=(TABLE, "list"))
        return tuple(number[name] for name in wanted)
    for node in table.list:
        if node >= num_nodes:
            raise InputError(
                f"got node {node}, allowed: 0 to {num_nodes - 1} (nearest: {num_nodes - 1})", key=(TABLE, "list")
            )
    return tuple(table.list)
