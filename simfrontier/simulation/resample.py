"""Resampling: a simulated step once more with longer and shorter ops, all samples in one pass, without a clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from simfrontier.arrays import Floats
from simfrontier.records import dataclass
from simfrontier.schedule import Compute, Op, Role, Segment, SegmentedProgram, expand
from simfrontier.simulation.longest_path import LongestPath, Node, alone
from simfrontier.simulation.step import SimulatedStep
from simfrontier.simulation.step_path import StepPath
from simfrontier.simulation.timeline import CallTimes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DurationFactors:
    """By how much longer ops take than simulated, as logs, sample by sample.

    of_op      by number of the op [num_samples], on every rank; ops that are not in it take as long as simulated
    of_class   [num_rank_classes, num_samples]  what a rank class's devices compute by themselves (`on_device`), besides
    on_device  by number of the op
    run_sd     standard deviation of the log time of single calls, of which `noise` is, in these, per role
               [num_nodes, num_samples]
    """

    of_op: Mapping[int, Floats]
    of_class: Floats
    on_device: Mapping[int, bool]
    run_sd: float
    noise: Sequence[Floats]


def resampled_s(step: SimulatedStep, factors: DurationFactors) -> Floats:
    """Step times in seconds [num_samples] when every op takes its simulated time, times its factors.

    The rule of the simulation: ready = latest end of the op before it in its lane and of what it waits for; start =
    latest ready of its group; end = start + (simulated end - start) * factors. With all factors 1 that is the simulated
    step, at every fidelity: a rank that waits for its group loads nothing, so an op's duration counts from the start.
    What it does not know: what ran beside an op, and slowed it, stays as it was simulated, whatever runs beside it now.

    A call that ran as a whole begins, on rank classes that its collectives couple, when the last of them is ready; else
    its ops follow one another by the same rule. The noise of its single messages is one number, of the variance of
    their sum.
    """
    path = _Resampled(step, factors)
    last_of_lanes = {(role, nodes[-1]) for role, part in enumerate(path.parts) for nodes in part.program.by_lane}
    ends = [end.max(axis=0) for node, *_, end in path.ends(path.begin) if node in last_of_lanes]
    longest: Floats = np.max(ends, axis=0)
    return longest


class _Resampled(StepPath):
    """The nodes of all roles of a step, on the rank classes of each role, [num_rows, num_samples]."""

    def __init__(self, step: SimulatedStep, factors: DurationFactors) -> None:
        super().__init__([role.segmented for role in step.roles], [role.classes for role in step.roles], step.cluster)
        self.step, self.factors = step, factors
        num_samples = factors.of_class.shape[1]
        self.begin = [np.zeros((len(rows), num_samples)) for rows in self.rows]
        self.took = [np.ascontiguousarray((role.timeline.end - role.timeline.start).T) for role in step.roles]
        self.without_noise: dict[tuple[int, int], Floats] = {}
        self.calls: dict[tuple[tuple[CallTimes, ...], Segment], _CallPass] = {}
        self.waits_in: dict[Segment, list[list[int]]] = {}

    def start_of_call(self, role: int, node: int, ready: Floats) -> Floats:
        wait = None if self._ran_by_ops(role, node) else self.coupled(role, node)
        return ready if wait is None else wait.after(ready)

    def end(self, node: Node, start: Floats) -> Floats:
        role, index = node
        op, noise = self.parts[role].program.ops[index], self.factors.noise[role][index]
        if self.parts[role].blocks[index] is not None:
            return self._end_of_call(node, start, noise)
        took = self.took[role][index]
        if isinstance(op, Compute):
            return start + self.longer(op, role, took)
        logs = self.factors.run_sd * noise
        if op.number in self.factors.of_op:
            logs += self.factors.of_op[op.number]
        out: Floats = took[:, None] * np.exp(logs)
        return start + out

    def longer(self, op: Op, role: int, took: Floats) -> Floats:
        """An op's time without noise on the role's rank classes [num_rank_classes of the role, num_samples]."""
        key = op.number, role
        if key not in self.without_noise:
            logs = self.factors.of_op.get(op.number)
            factor = np.ones((1, 1)) if logs is None else np.exp(logs)[None]
            slow = self.factors.on_device[op.number]
            self.without_noise[key] = factor * self.factors.of_class[self.rows[role]] if slow else factor
        out: Floats = took[:, None] * self.without_noise[key]
        return out

    # ── calls ──

    def _ran_by_ops(self, role: int, node: int) -> bool:
        role_timeline = self.step.roles[role]
        return any((cls, node) in role_timeline.by_class for cls in role_timeline.classes)

    def _end_of_call(self, node: Node, start: Floats, noise: Floats) -> Floats:
        """What ran as a whole on all rank classes takes the same time whenever it begins."""
        role, index = node
        made = self._pass(role, index)
        end = made.after(start) if self._ran_by_ops(role, index) else start + made.alone()
        return end + made.in_messages_s[:, None] * np.expm1(self.factors.run_sd * made.noise_share * noise)

    def _pass(self, role: int, node: int) -> _CallPass:
        role_timeline = self.step.roles[role]
        inside = tuple(role_timeline.call_times(cls, node)[1] for cls in role_timeline.classes)
        key = inside, role_timeline.segmented.segment(node)
        if key not in self.calls:
            self.calls[key] = _CallPass(self, role, node, inside)
        return self.calls[key]

    def before_in_call(self, part: SegmentedProgram, node: int) -> list[list[int]]:
        """Of each op of a call the ops that it waits for."""
        segment = part.segment(node)
        if segment not in self.waits_in:
            only = replace(part.program.calls[node], ops=part.block(node))
            self.waits_in[segment] = expand(part.schedule, Role(part.role.name, (only,), part.role.at)).before
        return self.waits_in[segment]


class _CallPass(LongestPath):
    """A call op by op, without noise. `in_messages_s`: the simulated time in messages on each rank class of its role;
    `noise_share`: the standard deviation of the noise of their sum, for one of single calls."""

    def __init__(self, whole: _Resampled, role: int, node: int, inside: Sequence[CallTimes]) -> None:
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
        return start + self.whole.longer(self.block[node[1]], self.role, self.took[node[1]])

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
