"""Traffic between dragonfly groups onto global pools: a minimal share, the rest by way of third groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats, Ints
from simfrontier.base.errors import InputError
from simfrontier.core.machine import Dragonfly
from simfrontier.core.network.summed import summed

GLOBAL_CLASS = "global"
RESIDUE = 1e-12  # what is smaller than this, relative to the largest load, is left over from cancelling


@dataclass(frozen=True, slots=True, kw_only=True)
class DragonflyPools:
    """One pool per ordered pair of all groups of the machine (non-minimal traffic may pass through any group), from
    group a to group b at a * num_groups + b; those from a group to itself are never used."""

    dragonfly: Dragonfly
    link_class: ClassVar[str] = GLOBAL_CLASS
    route_names: ClassVar[tuple[str, ...]] = ("global {a}>{b}",)

    @property
    def nodes_per_group(self) -> int:
        return self.dragonfly.nodes_per_group

    @property
    def num_groups(self) -> int:
        return self.dragonfly.num_groups

    @property
    def capacity(self) -> Floats:
        return np.full(self.num_groups**2, self.dragonfly.bytes_per_s)

    def loads(self, act: Ints, source: Ints, target: Ints, amount: Floats) -> tuple[Ints, Ints, Floats]:
        """Loads (activity, pool, weight), each (activity, pool) once, of traffic between groups per activity.

        With G groups and non-minimal share u, a demand d(a,b) puts (1-u) d on pool (a,b), and u/(G-2) d on both (a,c)
        and (c,b) for each third group c. Summed over the demands of an activity, pool (c,d) carries
            alpha d(c,d) + beta (out(c) + in(d)),   beta = u/(G-2),  alpha = 1 - u - 2 beta,
        with out and in the demands that leave c and that reach d. So only group sums are spread, never single demands;
        and of activities with the same demands only one's.
        """
        alike = _alike(act, source, target, amount)
        if alike is not None:
            acts, first, which = alike
            mine = np.isin(act, acts[first])
            own, pool, load = self._each(
                np.searchsorted(acts[first], act[mine]), source[mine], target[mine], amount[mine]
            )
            start = np.searchsorted(own, np.arange(len(first) + 1))
            count = np.diff(start)[which]
            place = np.repeat(start[which] - np.cumsum(count) + count, count) + np.arange(count.sum())
            return np.repeat(acts, count), pool[place], load[place]
        return self._each(act, source, target, amount)

    def _each(self, act: Ints, source: Ints, target: Ints, amount: Floats) -> tuple[Ints, Ints, Floats]:
        """The same, spread for each activity."""
        num_groups = self.num_groups
        across = source != target
        if not across.any():
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        act, source, target, amount = act[across], source[across], target[across], amount[across]
        nonminimal = self.dragonfly.nonminimal_share if num_groups > 2 else 0.0
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
        """The direct pool: the share of traffic that goes by way of a third group, which `loads` counts, is left
        out."""
        return (source * self.num_groups + target,) if source != target else ()

    def describe(self, pool: int) -> str:
        source, target = divmod(pool, self.num_groups)
        return self.route_names[0].format(a=source, b=target)

    def ends(self, pool: int) -> tuple[str, str]:
        source, target = divmod(pool, self.num_groups)
        return self.switch(source), self.switch(target)

    def switch(self, group: int) -> str:
        return f"net {group}"

    def joining(self) -> tuple[int, ...]:
        """All but those from a group to itself."""
        groups = range(self.num_groups)
        return tuple(a * self.num_groups + b for a in groups for b in groups if a != b)

    def leads_to(self, pool: int) -> int:
        return pool % self.num_groups

    def around(self, pool: int, dead: NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
        """By way of each third group to and from which pools are alive."""
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


def _alike(act: Ints, source: Ints, target: Ints, amount: Floats) -> tuple[Ints, Ints, Ints] | None:
    """The activities, which of them is the first of each kind that has the same demands in the same order, and the kind
    of each; None where they have unequal numbers of demands, or all are different."""
    acts, counts = np.unique(act, return_counts=True)
    if len(acts) < 2 or (counts != counts[0]).any():
        return None
    order = np.argsort(act, kind="stable")
    rows = np.stack([source, target, amount], axis=-1)[order].reshape(len(acts), -1)
    whole = rows.view(
        np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))
    ).ravel()  # compared as bytes, which is fast
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    if len(first) == len(acts):
        return None
    by_place = np.argsort(first)
    rank = np.empty(len(first), np.int64)
    rank[by_place] = np.arange(len(first))
    return acts, first[by_place], rank[which]
