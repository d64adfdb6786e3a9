"""Resampling: a simulated step with varied durations of ops, all samples in one pass, without a clock; and the time
that ranks then wait in calls for the last of their group."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.engine.durations import SimulatedDurations
from simfrontier.core.engine.step import SimulatedStep
from simfrontier.core.engine.step_path import Node, StepPath, num_waiting
from simfrontier.core.engine.timeline import RoleTimeline
from simfrontier.core.program import Compute, Op, SegmentedProgram


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DurationFactors:
    """Logs of the factors on the simulated durations of ops, for each sample.

    of_op      by number of the op [num_samples], on every rank; ops that are not in it take as long as simulated
    of_class   [num_rank_classes, num_samples]  in addition, for local work of a rank class's devices (`on_device`)
    on_device  by number of the op
    run_sd     standard deviation of the log time of single calls; `noise` is in units of it, per role
               [num_nodes, num_samples]
    call_sd    standard deviation of the log time of a kernel on a device, from one launch to the next
    of_run     by role and number of a run of kernels, in standard deviations: additional time of the slowest member of
               each rank class of the role for the whole run [num_rank_classes of the role, num_samples]

    A run of kernels is what a rank computes between two calls that it waits for. For kernels that take t, the run of
    the slowest member of a class takes sum(t) + call_sd z sqrt(sum(t²)), as the largest sum of independent ones does.
    """

    of_op: Mapping[int, Floats]
    of_class: Floats
    on_device: Mapping[int, bool]
    run_sd: float
    noise: Sequence[Floats]
    call_sd: float = 0.0
    of_run: Callable[[int, int], Floats] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resampled:
    """Step times in seconds [num_samples], and by name of call the time that a rank waits in it per step, averaged over
    ranks [num_samples]; calls inside pipelines' passes that ran as a whole are not included."""

    step_s: Floats
    waited_s: Mapping[str, Floats]


def resampled_s(step: SimulatedStep, factors: DurationFactors) -> Floats:
    """Return the step times in seconds [num_samples], as `resampled`."""
    return resampled(step, factors, waits=False).step_s


def resampled(step: SimulatedStep, factors: DurationFactors, waits: bool = True) -> Resampled:
    """Return step times in seconds [num_samples], and waiting times (if `waits`), when every op takes its simulated
    time multiplied by its factors.

    The rule of the simulation: ready = latest end of the op before it in its lane and of what it waits for; start =
    latest ready of its group; end = start + (simulated end - start) * factors. With all factors 1 that is the simulated
    step, at every fidelity: a rank that waits for its group loads nothing, so an op's duration counts from the start.
    Limitation: the slowdown of an op by contention stays as simulated, whatever overlaps with it now.

    A call that ran as a whole begins, on rank classes that its collectives couple, when the last of them is ready; else
    its ops follow one another by the same rule. The noise of its single messages is one number, with the variance of
    their sum.
    """
    path = StepPath(_SampledDurations(step, factors))
    waiting = TypicalWaits(path, step.roles, factors.of_op) if waits else None
    ends = []
    for node, _, start, end in path.passed():
        if waiting is not None:
            waiting.note(node, start, end)
        if node in path.last_of_lanes:
            ends.append(end.max(axis=0))
    longest: Floats = np.max(ends, axis=0)
    return Resampled(step_s=longest, waited_s={} if waiting is None else waiting.by_call)


class _SampledDurations(SimulatedDurations):
    """Durations of the simulated step times the sampled factors of each op."""

    def __init__(self, step: SimulatedStep, factors: DurationFactors) -> None:
        super().__init__(step.pricing, step.roles, factors.of_class.shape[1], self._longer)
        self.sampled = factors
        self.runs: dict[int, dict[int, tuple[int, float]]] = {}
        self._messages: dict[Hashable, tuple[Floats, float]] = {}

    def _longer(self, op: Op, rows: Ints) -> Floats:
        logs = self.sampled.of_op.get(op.number)
        factor = np.ones((1, 1)) if logs is None else np.exp(logs)[None]
        slow: Floats = factor * self.sampled.of_class[rows] if self.sampled.on_device[op.number] else factor
        return slow

    def of_op(self, role: int, node: int) -> Floats:
        op, took = self.parts[role].program.ops[node], self.took[role][node]
        if isinstance(op, Compute):
            longer: Floats = took * self.factors(op, role)
            run = self._run_of(role, node)
            if run is None or self.sampled.of_run is None:
                return longer
            number, share = run
            return longer * np.exp(self.sampled.call_sd * share * self.sampled.of_run(role, number))
        logs = self.sampled.run_sd * self.sampled.noise[role][node]
        if op.number in self.sampled.of_op:
            logs += self.sampled.of_op[op.number]
        out: Floats = took * np.exp(logs)
        return out

    def added_to_call(self, role: int, node: int) -> Floats:
        """Return the noise of the messages of a call, in seconds."""
        in_messages_s, noise_share = self._messages_in(role, node)
        noise = self.sampled.noise[role][node]
        out: Floats = in_messages_s * np.expm1(self.sampled.run_sd * noise_share * noise)
        return out

    def _messages_in(self, role: int, node: int) -> tuple[Floats, float]:
        """Return the simulated time in messages of a call [num_rows, 1], and the standard deviation of the noise of
        their sum, relative to that of single calls."""
        key = self.call_key(role, node)
        if key not in self._messages:
            each = zip(self.parts[role].block(node), self.took_in_call(role, node), strict=True)
            messages = np.array([took for op, took in each if not isinstance(op, Compute)])
            total: Floats = messages.sum(axis=0) if len(messages) else np.zeros((len(self.rows[role]), 1))
            whole_s = np.sqrt((total**2).sum())
            share = float(np.sqrt((messages**2).sum()) / whole_s) if total.any() else 0.0
            self._messages[key] = total, share
        return self._messages[key]

    def _run_of(self, role: int, node: int) -> tuple[int, float] | None:
        """Return the number of a single kernel's run, and sqrt(sum(t²)) / sum(t) of the run; None if kernels take the
        same time at every launch."""
        if not self.sampled.call_sd:
            return None
        if role not in self.runs:
            part = self.parts[role]
            self.runs[role] = runs_of(part, part.program.before, [float(t.mean()) for t in self.took[role]])
        return self.runs[role].get(node)


def runs_of(
    part: SegmentedProgram, before: Sequence[Sequence[int]], took: Sequence[float]
) -> dict[int, tuple[int, float]]:
    """Return for each kernel of the compute lane the number of its run, and sqrt(sum(t²)) / sum(t) of that run. A
    kernel that waits for a call that none before it has waited for begins a run, and so does the one after a call on
    its lane."""
    ops, blocks = part.program.ops, part.blocks
    seen: set[int] = set()
    runs: list[list[int]] = [[]]
    for node in part.program.by_lane[part.program.lanes.index("compute")] if "compute" in part.program.lanes else ():
        if blocks[node] is not None or not isinstance(ops[node], Compute):
            runs.append([])
            continue
        calls = {other for other in before[node] if not isinstance(ops[other], Compute)}
        if calls - seen:
            runs.append([])
        seen |= calls
        runs[-1].append(node)
    out: dict[int, tuple[int, float]] = {}
    for number, nodes in enumerate(run for run in runs if run):
        times = np.array([took[node] for node in nodes])
        share = float(np.sqrt((times**2).sum()) / times.sum()) if times.any() else 0.0
        out |= dict.fromkeys(nodes, (number, share))
    return out


class TypicalWaits:
    """Collector of waiting times by name of call, in seconds per step averaged over ranks [num_variations].

    The rows of a path are the slowest members of rank classes, which arrive last. A typical member of a class starts
    with them whenever a call starts, and is ready for the next one when kernels of usual speed are done: it waits from
    then until the call starts. Classes are weighted by their numbers of ranks.
    """

    def __init__(self, path: StepPath, roles: Sequence[RoleTimeline], logs: Mapping[int, Floats]) -> None:
        """`roles`: those of the simulated step that the path varies; `logs`: by number of the op, the log of its
        duration on every rank relative to the simulated one [num_variations]."""
        self.path, self.logs = path, logs
        self.by_call: dict[str, Floats] = {}
        members = np.bincount(path.pricing.folding.rank_class)
        self._shares: list[Floats] = [members[rows] / members.sum() for rows in path.rows]
        self._took = [role.timeline.end - role.timeline.start for role in roles]
        self._left = [num_waiting(nodes) for nodes in path.before]
        self._ends: list[dict[int, Floats]] = [{} for _ in path.before]

    def note(self, node: Node, start: Floats, end: Floats) -> None:
        """Record the start and end of a node on the slowest members; each node once, in the order of the path."""
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
        """Return when a typical member is ready for a node [num_rows, num_variations]."""
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
