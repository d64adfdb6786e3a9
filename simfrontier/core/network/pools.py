"""Pools: links between the NICs of different nodes that all nodes of a job share, in a flat network, a dragonfly or a
fat tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats, Ints
from simfrontier.base.errors import InputError
from simfrontier.core.machine import UPLINK, Machine

GLOBAL_CLASS = "global"
RESIDUE = 1e-12  # loads below this, relative to the largest one, are rounding errors of cancellation
Loads = tuple[Ints, Ints, Floats]  # (activity, pool, weight), each pair once


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """Pools of one job, numbered from 0, between groups of nodes (`groups_of_job`). This base class models a flat
    network: one switch without contention connects all nodes, and there are no pools.

    nodes_per_group  as in the machine file; a job may have fewer nodes in some groups, or any number with a topology
    num_groups       number of groups, 0 in a job without pools
    bytes_per_s      nominal capacity of each pool
    link_class       class of the pools' links
    route_names      names of the pools of a route from group {a} to another group {b}, in order
    """

    nodes_per_group: int
    num_groups: int = 0
    bytes_per_s: float = 0.0
    link_class: str = GLOBAL_CLASS
    route_names: tuple[str, ...] = ()

    @property
    def num_pools(self) -> int:
        return 0

    def loads(self, act: Ints, source: Ints, target: Ints, amount: Floats) -> Loads:
        """Return the loads on pools if activity act[i] sends amount[i] from group source[i] to group target[i]; traffic
        within a group loads no pool."""
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)

    def route(self, source: int, target: int) -> tuple[int, ...]:
        """Return the pools that a single message passes from group `source` to group `target`, in order."""
        return ()

    def describe(self, pool: int) -> str:
        """Return the display name of a pool, such as "global 0>3"."""
        raise AssertionError(f"pool {pool} of a job without pools")

    def switch(self, group: int) -> str:
        """Return the name of the switch that connects the nodes of a group."""
        return "net"

    def ends(self, pool: int) -> tuple[str, str]:
        """Return the names of the switches at the source and the target of a pool."""
        raise AssertionError(f"pool {pool} of a job without pools")

    def joining(self) -> tuple[int, ...]:
        """Return the pools that connect two switches."""
        return tuple(range(self.num_pools))

    def leads_to(self, pool: int) -> int:
        """Return the group of nodes that a pool leads to."""
        raise AssertionError(f"pool {pool} of a job without pools")

    def around(self, pool: int, dead: NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
        """Return the detours around a dead pool, each as a tuple of the pools on its path; `dead`: mask of all pools
        [num_pools]."""
        return ()

    def degraded(self, source: int, target: int) -> int:
        """Return the pool from group `source` to group `target`, as named in a perturbation. Raises InputError if there
        is no such pool."""
        raise InputError(f"global pool: got {source}>{target}; this job has no global pools", key=("perturbation",))


@dataclass(frozen=True, slots=True, kw_only=True)
class DragonflyPools(Pools):
    """Pools of a dragonfly: one pool per ordered pair of groups of the machine (non-minimal traffic may pass through
    any group). The pool from group a to group b has number a * num_groups + b; pools from a group to itself are never
    used."""

    nonminimal_share: float
    route_names: tuple[str, ...] = ("global {a}>{b}",)

    @property
    def num_pools(self) -> int:
        return self.num_groups**2

    def loads(self, act: Ints, source: Ints, target: Ints, amount: Floats) -> Loads:
        """Return the loads on pools of minimal traffic, and of non-minimal traffic, which passes through a third group.

        With G groups and non-minimal share u, a demand d(a,b) puts (1-u) d on pool (a,b), and u/(G-2) d on both (a,c)
        and (c,b) for each third group c. Summed over the demands of an activity, pool (c,d) carries
            alpha d(c,d) + beta (out(c) + in(d)),   beta = u/(G-2),  alpha = 1 - u - 2 beta,
        where out(c) is the total demand that leaves c, and in(d) the total that reaches d. So only sums per group are
        distributed, never individual demands.
        """
        num_groups = self.num_groups
        across = source != target
        if not across.any():
            return Pools.loads(self, act, source, target, amount)
        act, source, target, amount = act[across], source[across], target[across], amount[across]
        nonminimal = self.nonminimal_share if num_groups > 2 else 0.0
        beta = nonminimal / max(num_groups - 2, 1)
        keys = [(act * num_groups + source) * num_groups + target]
        loads = [amount * (1.0 - nonminimal - 2.0 * beta)]
        if nonminimal:
            every = np.arange(num_groups)
            leaving, out_sum = summed(act * num_groups + source, amount)
            reaching, in_sum = summed(act * num_groups + target, amount)
            away = every != (leaving % num_groups)[:, None]
            keys.append((leaving[:, None] * num_groups + every)[away])
            loads.append(np.broadcast_to(out_sum[:, None] * beta, away.shape)[away])
            away = every != (reaching % num_groups)[:, None]
            number, group = reaching // num_groups, reaching % num_groups
            keys.append((number[:, None] * num_groups**2 + every * num_groups + group[:, None])[away])
            loads.append(np.broadcast_to(in_sum[:, None] * beta, away.shape)[away])
        key, load = summed(np.concatenate(keys), np.concatenate(loads))
        keep = load > RESIDUE * load.max()
        return key[keep] // num_groups**2, key[keep] % num_groups**2, load[keep]

    def route(self, source: int, target: int) -> tuple[int, ...]:
        """Return the direct pool between the groups: single messages never pass through a third group."""
        return (source * self.num_groups + target,) if source != target else ()

    def describe(self, pool: int) -> str:
        source, target = divmod(pool, self.num_groups)
        return self.route_names[0].format(a=source, b=target)

    def switch(self, group: int) -> str:
        return f"net {group}"

    def ends(self, pool: int) -> tuple[str, str]:
        source, target = divmod(pool, self.num_groups)
        return self.switch(source), self.switch(target)

    def joining(self) -> tuple[int, ...]:
        """Return all pools except those from a group to itself."""
        groups = range(self.num_groups)
        return tuple(a * self.num_groups + b for a in groups for b in groups if a != b)

    def leads_to(self, pool: int) -> int:
        return pool % self.num_groups

    def around(self, pool: int, dead: NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
        """Return the detours through each third group for which both pools are alive."""
        source, target = divmod(pool, self.num_groups)
        third = np.arange(self.num_groups)
        to, on = source * self.num_groups + third, third * self.num_groups + target
        usable = (third != source) & (third != target) & ~dead[to] & ~dead[on]
        return tuple(zip(to[usable].tolist(), on[usable].tolist(), strict=True))

    def degraded(self, source: int, target: int) -> int:
        if source == target or not (0 <= source < self.num_groups and 0 <= target < self.num_groups):
            allowed = f"two different groups of 0 to {self.num_groups - 1}"
            raise InputError(f"global pool: got {source}>{target}; allowed: {allowed}", key=("perturbation",))
        return source * self.num_groups + target


@dataclass(frozen=True, slots=True, kw_only=True)
class FatTreePools(Pools):
    """Pools of a tapered fat tree: two for each leaf switch, the uplink (number 2 * leaf) and the downlink (2 * leaf +
    1). A group consists of the nodes under one leaf; the levels above the leaves are non-blocking and have no pools."""

    link_class: str = UPLINK
    route_names: tuple[str, ...] = ("leaf {a} up", "leaf {b} down")

    @property
    def num_pools(self) -> int:
        return 2 * self.num_groups

    def loads(self, act: Ints, source: Ints, target: Ints, amount: Floats) -> Loads:
        """Return the loads on pools: traffic from leaf a to leaf b loads the uplink of a and the downlink of b."""
        across = source != target
        act, source, target, amount = act[across], source[across], target[across], amount[across]
        pool = np.concatenate([2 * source, 2 * target + 1])
        key, load = summed(np.tile(act, 2) * self.num_pools + pool, np.tile(amount, 2))
        used = load > 0.0
        return key[used] // self.num_pools, key[used] % self.num_pools, load[used]

    def route(self, source: int, target: int) -> tuple[int, ...]:
        return (2 * source, 2 * target + 1) if source != target else ()

    def describe(self, pool: int) -> str:
        leaf, is_down = divmod(pool, 2)
        return self.route_names[is_down].format(a=leaf, b=leaf)

    def switch(self, group: int) -> str:
        return f"leaf {group}"

    def ends(self, pool: int) -> tuple[str, str]:
        """Return the names of a leaf switch and of the spine, which represents all levels above the leaves; in the
        order of the pool's direction."""
        leaf, is_down = divmod(pool, 2)
        return ("spine", self.switch(leaf)) if is_down else (self.switch(leaf), "spine")

    def leads_to(self, pool: int) -> int:
        return pool // 2

    def degraded(self, source: int, target: int) -> int:
        raise InputError(
            f"global pool: got {source}>{target}; a fat tree has none; allowed: links of nodes", key=("perturbation",)
        )


def pools_of(machine: Machine, group_of: Ints) -> Pools:
    """Return the pools of a job, given the network group of each of its nodes [num_nodes]."""
    fly, tree, last = machine.dragonfly, machine.fat_tree, int(group_of.max())
    is_one_group = bool((group_of == last).all())
    if fly is not None and not is_one_group:
        return DragonflyPools(
            nodes_per_group=fly.nodes_per_group,
            num_groups=fly.num_groups,
            bytes_per_s=fly.bytes_per_s,
            nonminimal_share=fly.nonminimal_share,
        )
    if tree is not None and not is_one_group:
        return FatTreePools(nodes_per_group=tree.nodes_per_leaf, num_groups=last + 1, bytes_per_s=tree.bytes_per_s)
    return Pools(nodes_per_group=len(group_of), link_class=GLOBAL_CLASS if tree is None else UPLINK)


def summed(key: Ints, amount: Floats) -> tuple[Ints, Floats]:
    """Return the distinct keys in ascending order, and for each key the sum of its amounts."""
    unique, which = np.unique(key, return_inverse=True)
    return unique, np.bincount(which, amount).astype(np.float64, copy=False)
