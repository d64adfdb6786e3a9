"""Replay: the nodes of a simulated step once more, in the recorded order of waiting, with durations of another kind."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from simfrontier.arrays import Floats
from simfrontier.schedule import Compute, Op, Role, Segment, SegmentedProgram, expand
from simfrontier.simulation.longest_path import LongestPath, Node, alone
from simfrontier.simulation.step import SimulatedStep
from simfrontier.simulation.step_path import StepPath
from simfrontier.simulation.timeline import CallTimes

ChangeOf = Callable[[Op], Floats]
"""By how many seconds a distinct op takes longer than simulated, by itself: [num_activity_classes, num_samples]."""


class Replay(StepPath):
    """The nodes of all roles of a step, on the rank classes of each role, [num_rows, num_samples].

    A call that ran as a whole begins, on rank classes that its collectives couple, when the last of them is ready; else
    its ops follow one another by the rule of nodes.
    """

    def __init__(self, step: SimulatedStep, num_samples: int) -> None:
        super().__init__([role.segmented for role in step.roles], [role.classes for role in step.roles], step.cluster)
        self.step = step
        self.begin = [np.zeros((len(rows), num_samples)) for rows in self.rows]
        self.took = [np.ascontiguousarray((role.timeline.end - role.timeline.start).T) for role in step.roles]
        self._calls: dict[tuple[tuple[CallTimes, ...], Segment], CallPass] = {}
        self._waits_in: dict[Segment, list[list[int]]] = {}

    @abstractmethod
    def takes(self, op: Op, role: int, took: Floats) -> Floats:
        """What an op takes on the role's rank classes, where it took so long, without what differs from one node to
        another [num_rows, num_samples]."""

    def step_s(self) -> Floats:
        """Step times in seconds [num_samples]."""
        last_of_lanes = {(role, nodes[-1]) for role, part in enumerate(self.parts) for nodes in part.program.by_lane}
        ends = [end.max(axis=0) for node, _, _, end in self.ends(self.begin) if node in last_of_lanes]
        longest: Floats = np.max(ends, axis=0)
        return longest

    def end(self, node: Node, start: Floats) -> Floats:
        role, index = node
        if self.parts[role].blocks[index] is not None:
            return self.end_of_call(node, start)
        return start + self.takes(self.parts[role].program.ops[index], role, self.took[role][index])

    def start_of_call(self, role: int, node: int, ready: Floats) -> Floats:
        wait = None if self.ran_by_ops(role, node) else self.coupled(role, node)
        return ready if wait is None else wait.after(ready)

    def ran_by_ops(self, role: int, node: int) -> bool:
        """Whether a call ran op by op, not as a whole."""
        role_timeline = self.step.roles[role]
        return any((cls, node) in role_timeline.by_class for cls in role_timeline.classes)

    def end_of_call(self, node: Node, start: Floats) -> Floats:
        """What ran as a whole on all rank classes takes the same time whenever it begins."""
        made = self.call_pass(*node)
        return made.after(start) if self.ran_by_ops(*node) else start + made.alone()

    def call_pass(self, role: int, node: int) -> CallPass:
        """The call that a node stands for, op by op; equal ones are one."""
        role_timeline = self.step.roles[role]
        inside = tuple(role_timeline.call_times(cls, node)[1] for cls in role_timeline.classes)
        key = inside, role_timeline.segmented.segment(node)
        if key not in self._calls:
            self._calls[key] = CallPass(self, role, node, inside)
        return self._calls[key]

    def before_in_call(self, part: SegmentedProgram, node: int) -> list[list[int]]:
        """Of each op of a call the ops that it waits for."""
        segment = part.segment(node)
        if segment not in self._waits_in:
            only = replace(part.program.calls[node], ops=part.block(node))
            self._waits_in[segment] = expand(part.schedule, Role(part.role.name, (only,), part.role.at)).before
        return self._waits_in[segment]


class CallPass(LongestPath):
    """A call op by op. `in_messages_s`: the simulated time in messages on each rank class of its role; `noise_share`:
    the standard deviation of the noise of their sum, for one of single calls."""

    def __init__(self, whole: Replay, role: int, node: int, inside: Sequence[CallTimes]) -> None:
        part = whole.step.roles[role].segmented
        self.whole, self.role, self.block = whole, role, part.block(node)
        super().__init__([whole.before_in_call(part, node)], alone(len(self.block)))
        self.took = np.stack([times.end - times.start for times in inside], axis=1)
        messages = self.took[np.array([not isinstance(op, Compute) for op in self.block], bool)]
        self.in_messages_s: Floats = messages.sum(axis=0)
        whole_s = np.sqrt((self.in_messages_s**2).sum())
        self.noise_share = float(np.sqrt((messages**2).sum()) / whole_s) if self.in_messages_s.any() else 0.0
        self._alone: Floats | None = None

    def start(self, takers: tuple[Node, ...], ready: list[Floats]) -> list[Floats]:
        wait = self.whole.group_wait(self.block[takers[0][1]], self.role)
        return ready if wait is None else [wait.after(ready[0])]

    def end(self, node: Node, start: Floats) -> Floats:
        return start + self.whole.takes(self.block[node[1]], self.role, self.took[node[1]])

    def after(self, begin: Floats) -> Floats:
        """When the call ends on rank classes that begin it then."""
        out = begin
        for *_, end in self.ends([begin]):
            out = np.maximum(out, end)
        return out

    def alone(self) -> Floats:
        """When it ends if all begin at 0."""
        if self._alone is None:
            self._alone = self.after(np.zeros_like(self.whole.begin[self.role]))
        return self._alone


def replayed_s(step: SimulatedStep, change_of: ChangeOf, num_samples: int) -> Floats:
    """Step times in seconds [num_samples] when every op takes as long as simulated and its change, never less than
    nothing: what ran beside it, and slowed it, still does, by as much."""
    return _Changed(step, change_of, num_samples).step_s()


class _Changed(Replay):
    """Durations as simulated, and the change of each op."""

    def __init__(self, step: SimulatedStep, change_of: ChangeOf, num_samples: int) -> None:
        super().__init__(step, num_samples)
        self.change_of = change_of
        self.changes: dict[tuple[int, int], Floats] = {}

    def takes(self, op: Op, role: int, took: Floats) -> Floats:
        key = op.number, role
        if key not in self.changes:
            groups = self.cluster.folding.activity_of(self.cluster.of(op).pattern)[self.rows[role]]
            self.changes[key] = np.ascontiguousarray(self.change_of(op)[groups])
        out: Floats = self.changes[key] + took[:, None]
        return np.maximum(out, 0.0, out=out)
