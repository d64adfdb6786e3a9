"""A job beside the one that is simulated: its schedule, on other nodes of the same machine."""

from __future__ import annotations

from collections.abc import Sequence

from simfrontier.collectives import Library
from simfrontier.cost import Placement
from simfrontier.machine import Machine, Perturbation
from dataclasses import dataclass
from simfrontier.schedule import Schedule, SegmentedProgram


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Neighbour:
    """`machine` says which nodes it has; `perturbation` is what is wrong with the links that both jobs share; `parts`:
    its roles in nodes, as `segmented_roles` makes them."""

    schedule: Schedule
    machine: Machine
    library: Library
    perturbation: Perturbation
    placement: Placement
    parts: Sequence[SegmentedProgram]
