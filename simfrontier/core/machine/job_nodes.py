"""Which nodes of a machine a job is on, and in which group of the network each node is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

NodePlacement = Literal["contiguous", "spread", "random", "list"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNodes:
    """How a job gets its nodes; the nodes of the machine have the numbers 0, 1 ...

    placement  contiguous: the first ones; spread: one of each group in turn; random: any, by `seed`, all three in the
               order of their numbers, as Slurm orders the nodes of a job; list: those of `listed`, in that order;
               a smaller job has the first of them
    group_of   [nodes of the machine] the group (dragonfly) or leaf (fat tree) of each node; empty: in order, as many in
               each as the machine's file says
    names      of the nodes of `listed`, where they have names
    """

    placement: NodePlacement = "contiguous"
    seed: int = 1
    listed: tuple[int, ...] = ()
    group_of: tuple[int, ...] = ()
    names: tuple[str, ...] = ()


FIRST_NODES: Final = JobNodes()
