"""Traffic between the leaves of a tapered fat tree: up out of one leaf's pool, down into another's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats, Ints
from simfrontier.base.errors import InputError
from simfrontier.core.machine import UPLINK, FatTree
from simfrontier.core.network.summed import summed


@dataclass(frozen=True, slots=True, kw_only=True)
class FatTreePools:
    """Two pools for each leaf: up at 2 * leaf, down at 2 * leaf + 1. A group is the nodes under one leaf;
    the levels above the leaves are non-blocking and have no pools."""

    fat_tree: FatTree
    num_groups: int  # leaves up to the last that a node of the job hangs under
    link_class: ClassVar[str] = UPLINK
    route_names: ClassVar[tuple[str, ...]] = ("leaf {a} up", "leaf {b} down")

    @property
    def nodes_per_group(self) -> int:
        return self.fat_tree.nodes_per_leaf

    @property
    def capacity(self) -> Floats:
        return np.full(2 * self.num_groups, self.fat_tree.bytes_per_s)

    def loads(self, act: Ints, source: Ints, target: Ints, amount: Floats) -> tuple[Ints, Ints, Floats]:
        """Loads (activity, pool, weight): what goes from leaf a to leaf b loads up(a) and down(b) once."""
        across = source != target
        act, source, target, amount = act[across], source[across], target[across], amount[across]
        num_pools = 2 * self.num_groups
        pool = np.concatenate([2 * source, 2 * target + 1])
        key, load = summed(np.tile(act, 2) * num_pools + pool, np.tile(amount, 2))
        used = load > 0.0
        return key[used] // num_pools, key[used] % num_pools, load[used]

    def route(self, source: int, target: int) -> tuple[int, ...]:
        return (2 * source, 2 * target + 1) if source != target else ()

    def describe(self, pool: int) -> str:
        leaf, is_down = divmod(pool, 2)
        return self.route_names[is_down].format(a=leaf, b=leaf)

    def ends(self, pool: int) -> tuple[str, str]:
        """A leaf's switch and what stands for all levels above it."""
        leaf, is_down = divmod(pool, 2)
        return ("spine", self.switch(leaf)) if is_down else (self.switch(leaf), "spine")

    def switch(self, group: int) -> str:
        return f"leaf {group}"

    def joining(self) -> tuple[int, ...]:
        return tuple(range(2 * self.num_groups))

    def leads_to(self, pool: int) -> int:
        """The leaf whose uplinks they are."""
        return pool // 2

    def around(self, pool: int, dead: NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
        """None: a leaf's uplinks are one pool."""
        return ()

    def degraded(self, source: int, target: int) -> int:
        raise InputError(
            f"global pool: got {source}>{target}; a fat tree has none; allowed: links of nodes", key=("perturbation",)
        )
