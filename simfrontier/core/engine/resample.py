"""Resampling: step times of a simulated step under random durations of its ops, all samples in one vectorised pass
without an event loop; and the time that ranks then wait in collective calls for the last rank of their group."""

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
    """Logarithms of random factors on the simulated durations of ops, for each sample.

    of_op      by number of the op [num_samples]: factor on every rank; other ops keep their simulated duration
    of_class   [num_rank_classes, num_samples]  additional factor on the ops in `on_device` of a rank class
    on_device  numbers of the ops to which `of_class` applies
    run_sd     standard deviation of the log time of single collective calls; `noise` is in units of it, for each role
               [num_nodes, num_samples]
    call_sd    standard deviation of the log time of a kernel on a device, from one launch to the next
    of_run     by role and number of a run of kernels, in standard deviations: additional time of the slowest member of
               each rank class of the role for the whole run [num_rank_classes of the role, num_samples]

    A run of kernels is the sequence of kernels that a rank executes between two collective calls for which it waits. If
    its kernels have the simulated durations t, the run takes sum(t) + call_sd z sqrt(sum(t²)) on the slowest member of
    a rank class, as the largest sum of independent durations does.
    """

    of_op: Mapping[int, Floats]
    of_class: Floats
    on_device: Mapping[int, bool]
    run_sd: float
    noise: Sequence[Floats]
    call_sd: float = 0.0
    of_run: Callable[[int, int], Floats] | None = None


def resampled_s(step: SimulatedStep, factors: DurationFactors) -> Floats:
    """Return step times in seconds [num_samples] when every op takes its simulated duration multiplied by its factors.

    The rule of the simulation: ready = latest end of the previous op in the same lane and of the op's dependencies;
    start = latest ready time in the op's group; end = start + (simulated end - start) * factors. With all factors 1
    this reproduces the simulated step, at every fidelity: a rank that waits for its group loads nothing, so an op's
    duration counts from the start. Limitation: the slowdown of an op by contention stays as simulated, even if other
    ops overlap with it in a sample.

    A program call that ran as a whole begins, on rank classes that its collectives synchronise, when the last of these
    classes is ready; otherwise its ops follow one another by the same rule. The noise of the messages inside a program
    call is one random number, with the variance of their sum.
    """
    return StepPath(_SampledDurations(step, factors)).step_s()


def resampled_waits(step: SimulatedStep, factors: DurationFactors) -> Mapping[str, Floats]:
    """Return for each collective call, by name, the time that a rank waits in it per step, averaged over ranks
    [num_samples], in the steps of `resampled_s`. Collective calls inside program calls that ran as a whole (in
    pipelines) are not included."""
    path = StepPath(_SampledDurations(step, factors))
    waiting = TypicalWaits(path, step.roles, factors.of_op)
    for node, _, start, end in path.passed():
        waiting.note(node, start, end)
    return waiting.by_call


class _SampledDurations(SimulatedDurations):
    """Durations of the simulated step multiplied by the sampled factors of each op."""

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
        """Return the noise of the messages inside a program call, in seconds."""
        return self.added_to_calls(role, [node])[:, 0]

    def added_to_calls(self, role: int, nodes: Sequence[int]) -> Floats:
        in_messages_s, noise_share = self._messages_in(role, nodes[0])
        noise = self.sampled.noise[role][nodes]
        out: Floats = in_messages_s[:, None] * np.expm1(self.sampled.run_sd * noise_share * noise)
        return out

    def _messages_in(self, role: int, node: int) -> tuple[Floats, float]:
        """Return the simulated communication time of a program call [num_rows, 1], and the standard deviation of the
        noise of this sum, relative to the standard deviation for single collective calls."""
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
        """Return the number of the run to which a kernel belongs, and sqrt(sum(t²)) / sum(t) of the run's kernel
        durations t; None if kernels take the same time at every launch."""
        if not self.sampled.call_sd:
            return None
        if role not in self.runs:
            part = self.parts[role]
            self.runs[role] = runs_of(part, part.program.before, [float(t.mean()) for t in self.took[role]])
        return self.runs[role].get(node)


def runs_of(
    part: SegmentedProgram, before: Sequence[Sequence[int]], took: Sequence[float]
) -> dict[int, tuple[int, float]]:
    """Return for each kernel of the compute lane the number of its run, and sqrt(sum(t²)) / sum(t) of the run's kernel
    durations t. A run begins with a kernel that waits for a collective call for which no earlier kernel has waited, and
    with the first kernel after a call on the compute lane."""
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
    """Collector of waiting times in collective calls, by name of the call, in seconds per step averaged over ranks
    [num_variations].

    The rows of a path represent the slowest member of each rank class, which arrives last. A typical member of the
    class starts each collective call together with the slowest member, and is ready for the next call when its kernels,
    at usual speed, are done; it waits from then until the call starts. Rank classes are weighted by their numbers of
    ranks.
    """

    def __init__(self, path: StepPath, roles: Sequence[RoleTimeline], logs: Mapping[int, Floats]) -> None:
        """`roles`: the role timelines of the simulated step whose durations the path varies; `logs`: for each op
        number, the logarithm of the op's duration relative to the simulated duration, on every rank
        [num_variations]."""
        self.path, self.logs = path, logs
        self.by_call: dict[str, Floats] = {}
        members = np.bincount(path.pricing.folding.rank_class)
        self._shares: list[Floats] = [members[rows] / members.sum() for rows in path.rows]
        self._took = [role.timeline.end - role.timeline.start for role in roles]
        self._left = [num_waiting(nodes) for nodes in path.before]
        self._ends: list[dict[int, Floats]] = [{} for _ in path.before]

    def note(self, node: Node, start: Floats, end: Floats) -> None:
        """Record the start and end of a program node on the slowest members. Must be called once for each node, in the
        order of the path."""
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
        """Return the times at which a typical member of each rank class is ready for a program node [num_rows,
        num_variations]."""
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
