"""Resampling: a simulated step once more with longer and shorter ops, all samples in one pass, without a clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfrontier.schedule.expand import Expanded
from simfrontier.schedule.issuer import ops_by_lane
from simfrontier.simulate.step import SimulatedStep

BLOCK_BYTES = 2**27  # ends of the samples that one pass holds: more samples than that are done one block after another


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Factors:
    """By how much longer ops take than simulated, sample by sample.

    of_op      [num_ops, num_samples]           on every rank
    of_class   [num_rank_classes, num_samples]  what a rank class's devices compute by themselves (`on_device`), besides
    on_device  [num_ops]
    """

    of_op: NDArray[np.float64]
    of_class: NDArray[np.float64]
    on_device: NDArray[np.bool_]

    @property
    def num_samples(self) -> int:
        return int(self.of_op.shape[1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Meeting:
    """Who waits for whom on a pattern: rank classes sorted by group, where each group begins there, and each class's
    group."""

    order: NDArray[np.int64]
    first: NDArray[np.int64]
    group: NDArray[np.integer]

    def wait(self, ready: NDArray[np.float64]) -> None:
        """Turn the times at which classes are ready [num_rank_classes, num_samples] into those at which groups are."""
        if len(self.first) == 1:
            ready[:] = ready.max(axis=0)
        else:
            ready[:] = np.maximum.reduceat(ready[self.order], self.first, axis=0)[self.group]


def resampled_s(step: SimulatedStep, factors: Factors) -> NDArray[np.float64]:
    """Step times in seconds [num_samples] when every op takes its simulated time, times its factors.

    The rule of the simulation: ready = latest end of the op before it in its lane and of what it waits for; start =
    latest ready of its group; end = start + (simulated end - start) * factors. With all factors 1 that is the simulated
    step, at every fidelity: a rank that waits for its group loads nothing, so an op's duration counts from the start.
    What it does not know: what ran beside an op, and slowed it, stays as it was simulated, whatever runs beside it now.
    """
    timeline = step.timeline
    took = np.ascontiguousarray((timeline.end - timeline.start).T)[:, :, None]
    earlier, meetings = _earlier(step.program), _meetings(step)
    room = max(1, BLOCK_BYTES // max(1, took.nbytes))
    blocks = [slice(begin, begin + room) for begin in range(0, factors.num_samples, room)]
    return np.concatenate([_last_end(took, earlier, meetings, factors, block) for block in blocks])


def _earlier(program: Expanded) -> list[list[int]]:
    """The ops whose ends an op waits for; all stand before it in the program."""
    by_lane = ops_by_lane(program)
    out = []
    for lane, position, waits in zip(program.lane, program.position, program.waits, strict=True):
        before = [by_lane[lane][position - 1]] if position else []
        out.append(before + [by_lane[other][count - 1] for other, count in waits])
    return out


def _meetings(step: SimulatedStep) -> list[_Meeting | None]:
    """How the rank classes of each op meet; None where each is a group by itself."""
    cluster, known, by_op = step.cluster, dict[str, _Meeting | None](), dict[int, _Meeting | None]()
    for op in step.program.ops:
        if id(op) in by_op:
            continue
        key = cluster.of(op).pattern
        if key not in known:
            group = cluster.folding.activity_of(key)
            order = np.argsort(group, kind="stable")
            first = np.flatnonzero(np.diff(group[order], prepend=-1))
            alone = len(first) == len(group)
            known[key] = None if alone else _Meeting(order=order, first=first, group=group)
        by_op[id(op)] = known[key]
    return [by_op[id(op)] for op in step.program.ops]


def _last_end(
    took: NDArray[np.float64],
    earlier: list[list[int]],
    meetings: list[_Meeting | None],
    factors: Factors,
    block: slice,
) -> NDArray[np.float64]:
    """The end of the last op on the slowest rank, for a block of samples; `took` [num_ops, num_rank_classes, 1]."""
    of_op, of_class = factors.of_op[:, block], factors.of_class[:, block]
    ends = np.zeros((len(took), *of_class.shape))
    rows = list(ends)
    for index, (end, before, meeting) in enumerate(zip(rows, earlier, meetings, strict=True)):
        for other in before:
            np.maximum(end, rows[other], out=end)
        if meeting is not None:
            meeting.wait(end)
        longer = took[index] * of_op[index]
        if factors.on_device[index]:
            longer *= of_class
        end += longer
    last: NDArray[np.float64] = ends.max(axis=(0, 1), initial=0.0)
    return last
