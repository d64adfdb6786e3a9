"""Resampling: a simulated step once more with longer and shorter ops, all samples in one pass, without a clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfrontier.simulation.step import SimulatedStep
from simfrontier.simulation.waits import GroupWait, earlier, group_waits

BLOCK_BYTES = 2**27  # ends of the samples that one pass holds: more samples than that are done one block after another


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DurationFactors:
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


def resampled_s(step: SimulatedStep, factors: DurationFactors) -> NDArray[np.float64]:
    """Step times in seconds [num_samples] when every op takes its simulated time, times its factors.

    The rule of the simulation: ready = latest end of the op before it in its lane and of what it waits for; start =
    latest ready of its group; end = start + (simulated end - start) * factors. With all factors 1 that is the simulated
    step, at every fidelity: a rank that waits for its group loads nothing, so an op's duration counts from the start.
    What it does not know: what ran beside an op, and slowed it, stays as it was simulated, whatever runs beside it now.
    """
    timeline = step.timeline
    took = np.ascontiguousarray((timeline.end - timeline.start).T)[:, :, None]
    before, waits = earlier(step.program), group_waits(step.cluster, step.program)
    room = max(1, BLOCK_BYTES // max(1, took.nbytes))
    blocks = [slice(begin, begin + room) for begin in range(0, factors.num_samples, room)]
    return np.concatenate([_last_end(took, before, waits, factors, block) for block in blocks])


def _last_end(
    took: NDArray[np.float64],
    before: list[list[int]],
    waits: list[GroupWait | None],
    factors: DurationFactors,
    block: slice,
) -> NDArray[np.float64]:
    """The end of the last op on the slowest rank, for a block of samples; `took` [num_ops, num_rank_classes, 1]."""
    of_op, of_class = factors.of_op[:, block], factors.of_class[:, block]
    ends = np.zeros((len(took), *of_class.shape))
    rows = list(ends)
    for index, (end, others, group_wait) in enumerate(zip(rows, before, waits, strict=True)):
        for other in others:
            np.maximum(end, rows[other], out=end)
        if group_wait is not None:
            group_wait.wait(end)
        longer = took[index] * of_op[index]
        if factors.on_device[index]:
            longer *= of_class
        end += longer
    last: NDArray[np.float64] = ends.max(axis=(0, 1), initial=0.0)
    return last
