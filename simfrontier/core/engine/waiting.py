"""Waiting: how long ranks wait in calls until the last of their group has come, in a step that is passed through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from simfrontier.base.arrays import Floats
from simfrontier.core.engine.step_path import Node, StepPath, num_waiting
from simfrontier.core.engine.timeline import RoleTimeline
from simfrontier.core.program import Compute


class TypicalWaits:
    """Collects waits by the names of calls, in seconds per step of a rank on average [num_variations].

    The rows of a path are the slowest members of rank classes, which come last. A typical member of a class starts with
    them whenever a call starts, and is ready for the next one when kernels of usual speed are done: it waits from then
    until the call starts. Classes count with as many ranks as they have.
    """

    def __init__(self, path: StepPath, roles: Sequence[RoleTimeline], logs: Mapping[int, Floats]) -> None:
        """`roles`: of the simulated step that the path varies; `logs`: by the number of an op, the log of how many
        times as long it takes on every rank [num_variations]."""
        self.path, self.logs = path, logs
        self.by_call: dict[str, Floats] = {}
        members = np.bincount(path.pricing.folding.rank_class)
        self._shares: list[Floats] = [members[rows] / members.sum() for rows in path.rows]
        self._took = [role.timeline.end - role.timeline.start for role in roles]
        self._left = [num_waiting(nodes) for nodes in path.before]
        self._ends: list[dict[int, Floats]] = [{} for _ in path.before]

    def note(self, node: Node, start: Floats, end: Floats) -> None:
        """A node that starts and ends so on the slowest members; each node once, in the order of the path."""
        role, index = node
        part, ready = self.path.parts[role], self._ready(node)
        op, took = part.program.ops[index], self._took[role][:, index, None]
        if part.blocks[index] is not None:
            coupled = not self.path.runs_whole[node] or self.path.coupled(role, index) is not None
            own = end if coupled else ready + took
        elif isinstance(op, Compute):
            own = ready + took * np.exp(self.logs.get(op.number, np.zeros(1)))[None]
        else:
            self._wait(role, op.name, np.maximum(start - ready, 0.0))
            own = end
        if self._left[role][index]:
            self._ends[role][index] = own

    def _ready(self, node: Node) -> Floats:
        """When a typical member is ready for a node [num_rows, num_variations]."""
        role, index = node
        ends, left = self._ends[role], self._left[role]
        out = np.zeros((len(self.path.rows[role]), self.path.durations.num_variations))
        for other in self.path.before[role][index]:
            out = np.maximum(out, ends[other])
            left[other] -= 1
            if not left[other]:
                del ends[other]
        return out

    def _wait(self, role: int, call: str, waited: Floats) -> None:
        own: Floats = self._shares[role] @ waited
        self.by_call[call] = self.by_call[call] + own if call in self.by_call else own
