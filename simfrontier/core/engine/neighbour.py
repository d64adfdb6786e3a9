"""A job beside the one that is simulated: its schedule, on other nodes of the same machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simfrontier.core.collectives import Library
from simfrontier.core.cost import Placement
from simfrontier.core.machine import Machine, Perturbation
from simfrontier.core.program import Schedule, SegmentedProgram


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
