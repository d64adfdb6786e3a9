"""Levels of switches of Slurm's topology.conf, with the nodes below each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from simfrontier.base.errors import InputError
from simfrontier.base.limits import SWITCH_LEVELS
from simfrontier.core.machine import compressed, read_topology


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchLevel:
    """The switches so many levels above those that nodes hang on, with the number of nodes below each."""

    level: int
    switches: tuple[str, ...]
    num_nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmLevels:
    """A whole file; `first_group` are the nodes below the first switch of level 0, as Slurm writes a list of them."""

    num_nodes: int
    levels: tuple[SwitchLevel, ...]
    first_group: str


def slurm_levels(path: Path) -> SlurmLevels:
    """Read a file. A level is one that all nodes have a switch on. Raises InputError with the line that is wrong."""
    read = read_topology(path)
    levels: list[SwitchLevel] = []
    for level in range(SWITCH_LEVELS.most):
        try:
            switches, groups = read.switches(level), read.groups(level)
        except InputError:  # a node has no switch so high
            break
        if any(switches == each.switches for each in levels):  # a circle, which Slurm does not refuse in a file
            break
        below = Counter(groups)
        levels.append(
            SwitchLevel(level=level, switches=switches, num_nodes=tuple(below[at] for at in range(len(switches))))
        )
    first = levels[0].switches[0]
    nodes = [node for node, switch in read.switch_of.items() if switch == first]
    return SlurmLevels(num_nodes=len(read.switch_of), levels=tuple(levels), first_group=compressed(nodes))
