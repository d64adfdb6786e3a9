"""Replay: the nodes of a simulated step once more, in the recorded order of waiting, with durations of another kind."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from simfrontier.arrays import Floats, Ints
from simfrontier.schedule import Compute, Op, Role, Segment, SegmentedProgram, expand
from simfrontier.simulation.longest_path import LongestPath, Node, alone
from simfrontier.simulation.step import SimulatedStep
from simfrontier.simulation.step_path import StepPath
from simfrontier.simulation.timeline import CallTimes

FactorsOf = Callable[[Op], Floats]
"""How many times as long a distinct op takes as simulated: [num_activity_classes, num_samples]."""


class Replay(StepPath):
    """The nodes of all roles, on the rank classes of each role, [num_rows, num_samples], with what they took in steps
    that were simulated of one schedule, folded alike; the first says what waits for what.

    A call that ran as a whole begins, on rank classes that its collectives couple, when the last of them is ready; else
    its ops follow one another by the rule of nodes.
    """

    def __init__(self, steps: Sequence[SimulatedStep], num_samples: int) -> None:
        step = steps[0]
        super().__init__([role.segmented for role in step.roles], [role.classes for role in step.roles], step.cluster)
        self.steps = steps
        self.begin = [np.zeros((len(rows), num_samples)) for rows in self.rows]
        of_roles = zip(*(each.roles for each in steps), strict=True)
        self.took = [_took([(each.timeline.start, each.timeline.end) for each in several]) for several in of_roles]
        self._calls: dict[tuple[tuple[CallTimes, ...], Segment], CallPass] = {}
        self._waits_in: dict[Segment, list[list[int]]] = {}

    @abstractmethod
    def takes(self, op: Op, role: int, took: Floats) -> Floats:
        """What an op takes on the role's rank classes, where it took so long in the steps [num_rows, num_steps]; what
        differs from one node to another is left out [num_rows, num_samples]."""

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
        took = self.takes(self.parts[role].program.ops[index], role, self.took[role][index])
        return np.add(start, took, out=took)

    def start_of_call(self, role: int, node: int, ready: Floats) -> Floats:
        wait = None if self.ran_by_ops(role, node) else self.coupled(role, node)
        return ready if wait is None else wait.after(ready)

    def ran_by_ops(self, role: int, node: int) -> bool:
        """Whether a call ran op by op, not as a whole, in one of the steps."""
        return any((cls, node) in step.roles[role].by_class for step in self.steps for cls in step.roles[role].classes)

    def end_of_call(self, node: Node, start: Floats) -> Floats:
        """What ran as a whole on all rank classes takes the same time whenever it begins."""
        made = self.call_pass(*node)
        return made.after(start) if self.ran_by_ops(*node) else start + made.alone()

    def call_pass(self, role: int, node: int) -> CallPass:
        """The call that a node stands for, op by op; equal ones are one."""
        roles = [step.roles[role] for step in self.steps]
        inside = tuple(each.call_times(cls, node)[1] for each in roles for cls in each.classes)
        key = inside, self.parts[role].segment(node)
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
    """A call op by op; `inside`: when its ops ran, step by step on each rank class. `in_messages_s`: the simulated time
    in messages there [num_rows, num_steps]; `noise_share`: the standard deviation of the noise of their sum, for one of
    single calls."""

    def __init__(self, whole: Replay, role: int, node: int, inside: Sequence[CallTimes]) -> None:
        part, num_rows = whole.parts[role], len(whole.rows[role])
        self.whole, self.role, self.block = whole, role, part.block(node)
        super().__init__([whole.before_in_call(part, node)], alone(len(self.block)))
        by_step = [inside[first : first + num_rows] for first in range(0, len(inside), num_rows)]
        starts_and_ends = [(np.stack([t.start for t in each]), np.stack([t.end for t in each])) for each in by_step]
        self.took = _took(starts_and_ends)
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


def _took(starts_and_ends: Sequence[tuple[Floats, Floats]]) -> Floats:
    """How long nodes took [num_nodes, num_rows, num_steps], of their starts and ends [num_rows, num_nodes]."""
    return np.ascontiguousarray(np.stack([end - start for start, end in starts_and_ends]).T)


def replayed_s(steps: Sequence[SimulatedStep], of: Ints, factors_of: FactorsOf) -> Floats:
    """Step times in seconds [num_samples] when every op takes so many times as long as in the step of that number
    (`of` [num_samples]): what ran beside it, and slowed it, still does, by as large a share. The steps are of one
    schedule, folded alike."""
    return _Scaled(steps, of, factors_of).step_s()


class _Scaled(Replay):
    """Durations as simulated, times the factors of each op, which are alike wherever it stands."""

    def __init__(self, steps: Sequence[SimulatedStep], of: Ints, factors_of: FactorsOf) -> None:
        super().__init__(steps, len(of))
        self.of, self.factors_of = of, factors_of
        self.factors: dict[tuple[int, int], Floats] = {}

    def takes(self, op: Op, role: int, took: Floats) -> Floats:
        key = op.number, role
        if key not in self.factors:
            groups = self.cluster.folding.activity_of(self.cluster.of(op).pattern)[self.rows[role]]
            self.factors[key] = np.ascontiguousarray(self.factors_of(op)[groups])
        out: Floats = took.take(self.of, axis=1)
        out *= self.factors[key]
        return out
