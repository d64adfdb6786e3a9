"""Pools: what the nodes of a job share between their NICs; one interface for every network that joins nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats, Ints
from simfrontier.base.errors import InputError
from simfrontier.core.machine import Machine
from simfrontier.core.network.dragonfly import GLOBAL_CLASS, DragonflyPools
from simfrontier.core.network.fat_tree import FatTreePools


class Pools(Protocol):
    """The pools of one job, numbered from 0. They lie between groups of nodes, `groups_of_job`.

    nodes_per_group  as the machine's file says; a job may have fewer in some, or any other number by a topology
    num_groups  number of groups, 0 in a job without pools
    link_class  what the pools' links are called
    route_names names of the pools of a route from group {a} to another group {b}, in order
    capacity    [number of pools] nominal bytes/s
    """

    @property
    def nodes_per_group(self) -> int: ...

    @property
    def num_groups(self) -> int: ...

    @property
    def link_class(self) -> str: ...

    @property
    def route_names(self) -> tuple[str, ...]: ...

    @property
    def capacity(self) -> Floats: ...

    def loads(self, act: Ints, source: Ints, target: Ints, amount: Floats) -> tuple[Ints, Ints, Floats]:
        """Loads (activity, pool, weight), each pair once, of amounts from group to group; none within a group."""
        ...

    def route(self, source: int, target: int) -> tuple[int, ...]:
        """The pools that a single message passes from group to group, in order."""
        ...

    def describe(self, pool: int) -> str:
        """Name of a pool for a reader, such as "global 0>3"."""
        ...

    def ends(self, pool: int) -> tuple[str, str]:
        """The switches that a pool leads from and to."""
        ...

    def switch(self, group: int) -> str:
        """The switch that joins the nodes of a group."""
        ...

    def joining(self) -> tuple[int, ...]:
        """The pools that lead from one switch to another."""
        ...

    def degraded(self, source: int, target: int) -> int:
        """The pool that a perturbation names by two groups. Raises InputError where there is no such pool."""
        ...

    def leads_to(self, pool: int) -> int:
        """The group of nodes that a pool leads to."""
        ...

    def around(self, pool: int, dead: NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
        """The ways around a dead pool, each the pools that it takes; `dead` of all pools [num_pools]."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPools:
    """One switch without contention joins all nodes of the job: a flat network, or a part of a larger one."""

    nodes_per_group: int
    link_class: str
    num_groups: int = 0
    route_names: tuple[str, ...] = ()

    @property
    def capacity(self) -> Floats:
        return np.empty(0)

    def loads(self, act: Ints, source: Ints, target: Ints, amount: Floats) -> tuple[Ints, Ints, Floats]:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)

    def route(self, source: int, target: int) -> tuple[int, ...]:
        return ()

    def describe(self, pool: int) -> str:
        raise AssertionError(f"pool {pool} of a job without pools")

    def ends(self, pool: int) -> tuple[str, str]:
        raise AssertionError(f"pool {pool} of a job without pools")

    def switch(self, group: int) -> str:
        return "net"

    def joining(self) -> tuple[int, ...]:
        return ()

    def leads_to(self, pool: int) -> int:
        raise AssertionError(f"pool {pool} of a job without pools")

    def around(self, pool: int, dead: NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
        return ()

    def degraded(self, source: int, target: int) -> int:
        raise InputError(f"global pool: got {source}>{target}; this job has no global pools", key=("perturbation",))


def pools_of(machine: Machine, group_of: Ints) -> Pools:
    """The pools that a job may use whose nodes are in these groups of the machine's network, [num_nodes]."""
    fly, tree, last = machine.dragonfly, machine.fat_tree, int(group_of.max())
    if (group_of != last).any():
        if fly is not None:
            assert last < fly.num_groups, (last, machine.name)
            return DragonflyPools(dragonfly=fly)
        if tree is not None:
            assert last < tree.num_leaves, (last, machine.name)
            return FatTreePools(fat_tree=tree, num_groups=last + 1)
    link_class = GLOBAL_CLASS if tree is None else FatTreePools.link_class
    return NoPools(nodes_per_group=len(group_of), link_class=link_class)
