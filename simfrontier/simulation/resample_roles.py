"""Resampling a step of several roles: in the nodes that it was simulated in, all samples in one pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from simfrontier.arrays import Floats
from simfrontier.cost import Cluster
from simfrontier.schedule import Compute, Op
from simfrontier.simulation.context import EngineContext
from simfrontier.simulation.role_timelines import RoleTimeline, RoleTimelines
from simfrontier.simulation.timeline import CallTimes
from simfrontier.simulation.waits import GroupWait, earlier, group_wait_of

Block = tuple[Op, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoleFactors:
    """By how much longer ops of several roles take than simulated, sample by sample.

    of_op      by number of the op [num_samples], on every rank; ops that are not in it take as long as simulated
    of_class   [num_rank_classes, num_samples]  what a rank class's devices compute by themselves, besides
    on_device  by number of the op
    run_sd     of single calls, as a standard deviation of log time; `noise` is per role [num_nodes, num_samples]
    """

    of_op: Mapping[int, Floats]
    of_class: Floats
    on_device: Mapping[int, bool]
    run_sd: float
    noise: Sequence[Floats]


def resampled_roles_s(role_timelines: RoleTimelines, cluster: Cluster, factors: RoleFactors) -> Floats:
    """Step times in seconds [num_samples]: every op takes its simulated time, times its factors.

    As `resample.resampled_s`, node by node. A call that ran as a whole begins, on rank classes that its collectives
    couple, when the last of them is ready; else its ops follow one another by the same rule. The noise of its single
    messages is one number, of the variance of their sum. With all factors 1 that is the simulated step.
    """
    return _Pass(role_timelines, cluster, factors).run()


@dataclass
class _Pass:
    role_timelines: RoleTimelines
    cluster: Cluster
    factors: RoleFactors
    lasts: dict[tuple[tuple[CallTimes, ...], int], tuple[Floats, Floats, float]] = field(default_factory=dict)
    group_waits: dict[tuple[str, int], GroupWait | None] = field(default_factory=dict)
    coupled: dict[tuple[int, int], GroupWait | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.context = EngineContext(self.cluster, contended=True)
        self.before = [earlier(role_timeline.segmented.program) for role_timeline in self.role_timelines.by_role]
        self.uses = [Counter(node for nodes in before for node in nodes) for before in self.before]
        self.ends: dict[tuple[int, int], Floats] = {}
        self.rows = [np.array(role_timeline.classes) for role_timeline in self.role_timelines.by_role]

    def run(self) -> Floats:
        num_classes, num_samples = self.factors.of_class.shape
        last = np.zeros(num_samples)
        for takers in self.role_timelines.order:
            if len(takers) == 1:
                ends = [self._end(*takers[0])]
            else:
                ready = np.full((num_classes, num_samples), -np.inf)
                for role, node in takers:
                    ready[self.rows[role]] = self._ready(role, node)
                ends = self._shared(takers, ready)
            for (role, node), end in zip(takers, ends, strict=True):
                if self.uses[role][node]:
                    self.ends[role, node] = end
                np.maximum(last, end.max(axis=0), out=last)
        return last

    def _ready(self, role: int, node: int) -> Floats:
        out = np.zeros((len(self.rows[role]), self.factors.of_class.shape[1]))
        for other in self.before[role][node]:
            np.maximum(out, self.ends[role, other], out=out)
            self.uses[role][other] -= 1
            if not self.uses[role][other]:
                del self.ends[role, other]
        return out

    def _shared(self, takers: tuple[tuple[int, int], ...], ready: Floats) -> list[Floats]:
        """A call of several roles: its groups wait across them."""
        first, node = takers[0]
        op = self.role_timelines.by_role[first].segmented.program.ops[node]
        group_wait = group_wait_of(self.cluster.folding.activity_of(self.cluster.of(op).pattern))
        if group_wait is not None:
            group_wait.wait(ready)
        noise = np.exp(self.factors.run_sd * self.factors.noise[first][node])
        out = []
        for role, its_node in takers:
            took = self._took(self.role_timelines.by_role[role], its_node)
            out.append(ready[self.rows[role]] + took[:, None] * self.factors.of_op.get(op.number, 1.0) * noise)
        return out

    def _took(self, role_timeline: RoleTimeline, node: int) -> Floats:
        return role_timeline.timeline.end[:, node] - role_timeline.timeline.start[:, node]

    def _end(self, role: int, node: int) -> Floats:
        role_timeline, ready = self.role_timelines.by_role[role], self._ready(role, node)
        block, noise = role_timeline.segmented.blocks[node], self.factors.noise[role][node]
        if block is not None:
            return self._through(role, node, block, ready, noise)
        op = role_timeline.segmented.program.ops[node]
        group_wait = self._group_wait(op, role)
        if group_wait is not None:
            group_wait.wait(ready)
        longer = self._longer(op, role, self._took(role_timeline, node))
        return ready + (longer if isinstance(op, Compute) else longer * np.exp(self.factors.run_sd * noise))

    def _longer(self, op: Op, role: int, took: Floats) -> Floats:
        """An op's time on the role's rank classes, without noise."""
        out: Floats = took[:, None] * self.factors.of_op.get(op.number, 1.0)
        return out * self.factors.of_class[self.rows[role]] if self.factors.on_device[op.number] else out

    def _group_wait(self, op: Op, role: int) -> GroupWait | None:
        key = self.cluster.of(op).pattern
        if (key, role) not in self.group_waits:
            self.group_waits[key, role] = group_wait_of(self.cluster.folding.activity_of(key)[self.rows[role]])
        return self.group_waits[key, role]

    def _through(self, role: int, node: int, block: Block, ready: Floats, noise: Floats) -> Floats:
        """The end of a call. What ran as a whole on all rank classes takes the same time whenever it begins."""
        role_timeline = self.role_timelines.by_role[role]
        inside = tuple(role_timeline.call_times(cls, node)[1] for cls in role_timeline.classes)
        if any((cls, node) in role_timeline.by_class for cls in role_timeline.classes):
            end, in_calls, share = self._run(role, node, block, inside, ready)
        else:
            key = inside, role_timeline.segmented.block_number(node)
            if key not in self.lasts:
                self.lasts[key] = self._run(role, node, block, inside, np.zeros_like(ready))
            alone, in_calls, share = self.lasts[key]
            group_wait = self._couples(role, node, block)
            if group_wait is not None:
                group_wait.wait(ready)
            end = ready + alone
        return end + in_calls[:, None] * np.expm1(self.factors.run_sd * share * noise)

    def _run(
        self, role: int, node: int, block: Block, inside: Sequence[CallTimes], ready: Floats
    ) -> tuple[Floats, Floats, float]:
        """A call op by op: when it ends on rank classes that are ready for it then, without noise; the simulated time
        in messages on each of them; and the standard deviation of their sum's noise for one of single calls."""
        before = earlier(self.context.program(self.role_timelines.by_role[role].segmented, node).segmented.program)
        took = np.stack([times.end - times.start for times in inside], axis=1)
        ends = np.zeros((len(block), *ready.shape))
        for end, op, spent, others in zip(ends, block, took, before, strict=True):
            end[:] = ready
            for other in others:
                np.maximum(end, ends[other], out=end)
            group_wait = self._group_wait(op, role)
            if group_wait is not None:
                group_wait.wait(end)
            end += self._longer(op, role, spent)
        calls = np.array([not isinstance(op, Compute) for op in block], bool)
        in_calls = took[calls].sum(axis=0)
        share = float(np.sqrt((took[calls] ** 2).sum()) / np.sqrt((in_calls**2).sum())) if in_calls.any() else 0.0
        return ends.max(axis=0), in_calls, share

    def _couples(self, role: int, node: int, block: Block) -> GroupWait | None:
        """Which rank classes wait for each other at some collective of a call, one after the other."""
        key = role, self.role_timelines.by_role[role].segmented.block_number(node)
        if key not in self.coupled:
            label = np.arange(len(self.rows[role]), dtype=float)
            several = [group_wait for op in block if (group_wait := self._group_wait(op, role)) is not None]
            while True:
                before = label.copy()
                for group_wait in several:
                    group_wait.wait(label)
                if (label == before).all():
                    break
            self.coupled[key] = group_wait_of(np.unique(label, return_inverse=True)[1])
        return self.coupled[key]
