"""Waiting: how long ranks wait in calls until the last of their group has come, in a step that is passed through."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simfrontier.arrays import Floats
from simfrontier.simulation.longest_path import Node, num_waiting


class Waiting:
    """Collects waits by the names of calls, in seconds per step of a rank on average [num_samples].

    The rows of a pass are the slowest members of rank classes, which come last. A typical member of a class starts with
    them whenever a call starts, and is ready for the next one when kernels of usual speed are done: it waits from then
    until the call starts. Classes count with as many ranks as they have.
    """

    def __init__(self, before: Sequence[Sequence[Sequence[int]]], shares: Sequence[Floats], num_samples: int) -> None:
        """`before`: per role and node, the nodes that it waits for; `shares`: per role, of all ranks, how many are in
        each of its rank classes [num_rows]."""
        self.before, self.shares, self.num_samples = before, shares, num_samples
        self.by_call: dict[str, Floats] = {}
        self._left = [num_waiting(nodes) for nodes in before]
        self._ends: list[dict[int, Floats]] = [{} for _ in before]

    def ready(self, node: Node) -> Floats:
        """When a typical member is ready for a node [num_rows, num_samples]; asked once for each, in order."""
        role, index = node
        ends, left = self._ends[role], self._left[role]
        out = np.zeros((len(self.shares[role]), self.num_samples))
        for other in self.before[role][index]:
            out = np.maximum(out, ends[other])
            left[other] -= 1
            if not left[other]:
                del ends[other]
        return out

    def ended(self, node: Node, end: Floats) -> None:
        """When a typical member is done with a node."""
        role, index = node
        if self._left[role][index]:
            self._ends[role][index] = end

    def waited(self, node: Node, call: str, ready: Floats, start: Floats) -> None:
        """A call of that name that a typical member is ready for before it starts."""
        own: Floats = self.shares[node[0]] @ np.maximum(start - ready, 0.0)
        self.by_call[call] = self.by_call[call] + own if call in self.by_call else own
