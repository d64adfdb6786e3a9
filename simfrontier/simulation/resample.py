"""Resampling: a simulated step once more with longer and shorter ops, all samples in one pass, without a clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from simfrontier.arrays import Floats
from simfrontier.records import dataclass
from simfrontier.schedule import Compute, Op, SegmentedProgram
from simfrontier.simulation.longest_path import Node
from simfrontier.simulation.replay import Replay
from simfrontier.simulation.step import SimulatedStep
from simfrontier.simulation.waiting import Waiting


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DurationFactors:
    """By how much longer ops take than simulated, as logs, sample by sample.

    of_op      by number of the op [num_samples], on every rank; ops that are not in it take as long as simulated
    of_class   [num_rank_classes, num_samples]  what a rank class's devices compute by themselves (`on_device`), besides
    on_device  by number of the op
    run_sd     standard deviation of the log time of single calls, of which `noise` is, in these, per role
               [num_nodes, num_samples]
    call_sd    standard deviation of the log time of a kernel on a device, from one launch to the next
    of_run     by role and number of a run of kernels, in standard deviations: how much longer the slowest member of
               each rank class of the role takes for all of it [num_rank_classes of the role, num_samples]

    A run of kernels is what a rank computes between two calls that it waits for. That of the slowest member of a class
    takes sum(t) + call_sd z sqrt(sum(t²)) of kernels that take t, as the largest sum of independent ones does.
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
    """Step times in seconds [num_samples], and by the names of calls how long a rank waits in them in a step, on
    average over ranks [num_samples]; calls inside pipelines' passes that ran as a whole are not among these."""

    step_s: Floats
    waited_s: Mapping[str, Floats]


def resampled_s(step: SimulatedStep, factors: DurationFactors) -> Floats:
    """Step times in seconds [num_samples], as `resampled`."""
    return resampled(step, factors, waits=False).step_s


def resampled(step: SimulatedStep, factors: DurationFactors, waits: bool = True) -> Resampled:
    """Step times in seconds [num_samples], and waiting (where `waits`), when every op takes its simulated time, times
    its factors.

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
    waiting = path.waiting() if waits else None
    ends = []
    for node, _, start, end in path.ends(path.begin):
        if waiting is not None:
            path.note(waiting, node, start, end)
        if node in last_of_lanes:
            ends.append(end.max(axis=0))
    longest: Floats = np.max(ends, axis=0)
    return Resampled(step_s=longest, waited_s={} if waiting is None else waiting.by_call)


class _Resampled(Replay):
    """Durations as simulated, times the factors of each op."""

    def __init__(self, step: SimulatedStep, factors: DurationFactors) -> None:
        super().__init__([step], factors.of_class.shape[1])
        self.factors = factors
        self.runs: dict[int, dict[int, tuple[int, float]]] = {}
        self.without_noise: dict[tuple[int, int], Floats] = {}

    def end(self, node: Node, start: Floats) -> Floats:
        role, index = node
        op, noise = self.parts[role].program.ops[index], self.factors.noise[role][index]
        if self.parts[role].blocks[index] is not None:
            made = self.call_pass(role, index)
            shaken = np.expm1(self.factors.run_sd * made.noise_share * noise)
            shaken_end: Floats = self.end_of_call(node, start) + made.in_messages_s * shaken
            return shaken_end
        took = self.took[role][index]
        if isinstance(op, Compute):
            longer = self.takes(op, role, took)
            run = self.run_of(role, index)
            if run is None or self.factors.of_run is None:
                return start + longer
            number, share = run
            return start + longer * np.exp(self.factors.call_sd * share * self.factors.of_run(role, number))
        logs = self.factors.run_sd * noise
        if op.number in self.factors.of_op:
            logs += self.factors.of_op[op.number]
        out: Floats = took * np.exp(logs)
        return start + out

    def takes(self, op: Op, role: int, took: Floats) -> Floats:
        """An op's time without noise."""
        key = op.number, role
        if key not in self.without_noise:
            logs = self.factors.of_op.get(op.number)
            factor = np.ones((1, 1)) if logs is None else np.exp(logs)[None]
            slow = self.factors.on_device[op.number]
            self.without_noise[key] = factor * self.factors.of_class[self.rows[role]] if slow else factor
        out: Floats = took * self.without_noise[key]
        return out

    def run_of(self, role: int, node: int) -> tuple[int, float] | None:
        """Of a kernel by itself: the number of its run, and sqrt(sum(t²)) / sum(t) of the run; None where kernels take
        the same time at every launch."""
        if not self.factors.call_sd:
            return None
        if role not in self.runs:
            self.runs[role] = runs_of(self.parts[role], self.before[role], [float(t.mean()) for t in self.took[role]])
        return self.runs[role].get(node)

    # ── waiting ──

    def waiting(self) -> Waiting:
        """What collects who waits how long."""
        members = np.bincount(self.cluster.folding.rank_class)
        shares = [members[rows] / members.sum() for rows in self.rows]
        return Waiting(self.before, shares, self.factors.of_class.shape[1])

    def note(self, waiting: Waiting, node: Node, start: Floats, end: Floats) -> None:
        """What a typical member of each rank class does at a node that starts and ends so."""
        role, index = node
        op, ready = self.parts[role].program.ops[index], waiting.ready(node)
        if self.parts[role].blocks[index] is not None:
            coupled = self.ran_by_ops(role, index) or self.coupled(role, index) is not None
            waiting.ended(node, end if coupled else ready + self.took[role][index])
        elif isinstance(op, Compute):
            logs = self.factors.of_op.get(op.number)
            factor = 1.0 if logs is None else np.exp(logs)[None]
            waiting.ended(node, ready + self.took[role][index] * factor)
        else:
            waiting.waited(node, op.name, ready, start)
            waiting.ended(node, end)


def runs_of(
    part: SegmentedProgram, before: Sequence[Sequence[int]], took: Sequence[float]
) -> dict[int, tuple[int, float]]:
    """Of each kernel of the compute lane: the number of its run and sqrt(sum(t²)) / sum(t) of that run. A kernel that
    waits for a call that none before it has waited for begins a run, and so does the one after a call on its lane."""
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
