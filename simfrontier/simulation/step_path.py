"""A whole step as a longest path: the nodes of all roles, on the rank classes of each, which wait for their groups."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simfrontier.arrays import Floats
from simfrontier.cost import Cluster
from simfrontier.schedule import Op, Segment, SegmentedProgram
from simfrontier.simulation.longest_path import LongestPath, Node
from simfrontier.simulation.nodes import number_nodes
from simfrontier.simulation.waits import GroupWait, group_wait_of


class StepPath(LongestPath):
    """`rows`: per role, its rank classes [num_rows]; what whoever inherits passes on has these first."""

    def __init__(self, parts: Sequence[SegmentedProgram], classes: Sequence[Sequence[int]], cluster: Cluster) -> None:
        before = [part.program.before for part in parts]
        super().__init__(before, number_nodes(parts, cluster).order(before))
        self.parts, self.cluster = parts, cluster
        self.rows = [np.array(each) for each in classes]
        self._waits: dict[tuple[str, int], GroupWait | None] = {}
        self._waits_of: list[dict[int, GroupWait | None]] = [{} for _ in parts]  # per role, by number of the op
        self._joint_waits: dict[str, GroupWait | None] = {}
        self._coupled: dict[tuple[int, Segment], GroupWait | None] = {}

    def start(self, takers: tuple[Node, ...], ready: list[Floats]) -> list[Floats]:
        role, node = takers[0]
        if len(takers) > 1:
            return self._joint_start(self.parts[role].program.ops[node], takers, ready)
        if self.parts[role].blocks[node] is not None:
            return [self.start_of_call(role, node, ready[0])]
        wait = self.group_wait(self.parts[role].program.ops[node], role)
        return ready if wait is None else [wait.after(ready[0])]

    @abstractmethod
    def start_of_call(self, role: int, node: int, ready: Floats) -> Floats:
        """When a node that stands for a call starts on the rows of its role, which are ready then."""

    def _joint_start(self, op: Op, takers: tuple[Node, ...], ready: list[Floats]) -> list[Floats]:
        """A call of several roles: its groups wait across them."""
        every = np.full((self.cluster.folding.num_rank_classes, *ready[0].shape[1:]), -np.inf)
        for (role, _), mine in zip(takers, ready, strict=True):
            every[self.rows[role]] = mine
        pattern = self.cluster.of(op).pattern
        if pattern not in self._joint_waits:
            self._joint_waits[pattern] = group_wait_of(self.cluster.folding.activity_of(pattern))
        wait = self._joint_waits[pattern]
        if wait is not None:
            every = wait.after(every)
        return [every[self.rows[role]] for role, _ in takers]

    def group_wait(self, op: Op, role: int) -> GroupWait | None:
        """Who waits for whom at an op, of the role's rank classes."""
        known = self._waits_of[role]
        if op.number not in known:
            key = self.cluster.of(op).pattern, role
            if key not in self._waits:
                self._waits[key] = group_wait_of(self.cluster.folding.activity_of(key[0])[self.rows[role]])
            known[op.number] = self._waits[key]
        return known[op.number]

    def coupled(self, role: int, node: int) -> GroupWait | None:
        """Which rank classes wait for each other at some collective of a call, one after the other."""
        key = role, self.parts[role].segment(node)
        if key not in self._coupled:
            label: NDArray[np.float64] = np.arange(len(self.rows[role]), dtype=float)
            waits = (self.group_wait(op, role) for op in self.parts[role].block(node))
            several = [wait for wait in waits if wait is not None]
            while True:
                before = label
                for wait in several:
                    label = wait.after(label)
                if (label == before).all():
                    break
            self._coupled[key] = group_wait_of(np.unique(label, return_inverse=True)[1])
        return self._coupled[key]
