"""Placement of a job's nodes in the machine's network, at every size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simfrontier.base.units import counted
from simfrontier.core.machine import Machine, compressed
from simfrontier.core.network import groups_of_job


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesOfJob:
    """Placement of a job's nodes. `in_groups`: by number of devices, how many nodes are in each group (dragonfly) or
    under each leaf (fat tree) that has any, in the order of the groups; empty on a machine that has none. `listed`: by
    number of devices, the nodes by name or number, where the scenario lists them; `seed`: where they are random."""

    placement: str
    group_word: str
    in_groups: Mapping[int, tuple[int, ...]]
    listed: Mapping[int, str]
    seed: int | None

    @property
    def is_usual(self) -> bool:
        """Return whether it goes without saying: the first nodes of the machine, all in one group."""
        return self.placement == "contiguous" and all(len(counts) <= 1 for counts in self.in_groups.values())

    def words(self, devices: int) -> str:
        """At one size, for a reader: `random (seed 1), 48 nodes in 12 groups, 1 to 7 in each`."""
        seed = "" if self.seed is None else f" (seed {self.seed})"
        text = f"{self.listed.get(devices, self.placement)}{seed}"
        counts = self.in_groups.get(devices, ())
        if not counts:
            return text
        low, high = min(counts), max(counts)
        groups = counted(len(counts), self.group_word, {"group": "groups", "leaf": "leaves"}[self.group_word])
        text = f"{text}, {counted(sum(counts), 'node')} in {groups}"
        return text if len(counts) == 1 else f"{text}, {low if low == high else f'{low} to {high}'} in each"


def nodes_of_job(machine: Machine, sizes: Sequence[int]) -> NodesOfJob:
    """Return the placement of the nodes at these numbers of devices."""
    job, has_groups = machine.job_nodes, machine.dragonfly is not None or machine.fat_tree is not None
    names = job.names or tuple(map(str, job.listed))
    in_groups, listed = {}, {}
    for size in sizes:
        num_nodes = -(-size // machine.devices_per_node)
        if has_groups:
            counts = Counter(groups_of_job(machine, num_nodes).tolist())
            in_groups[size] = tuple(counts[group] for group in sorted(counts))
        if names:
            listed[size] = compressed(names[:num_nodes])
    return NodesOfJob(
        placement=job.placement,
        group_word="leaf" if machine.fat_tree is not None else "group",
        in_groups=in_groups,
        listed=listed,
        seed=job.seed if job.placement == "random" else None,
    )
