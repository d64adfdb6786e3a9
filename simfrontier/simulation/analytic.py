"""Fidelity `analytic`: every op takes its closed-form time alone, so a step is one pass over the program, without a
clock."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simfrontier.cost import Cluster
from simfrontier.schedule import ExpandedProgram
from simfrontier.simulation.timeline import Timeline
from simfrontier.simulation.waits import earlier, group_waits


def analytic(program: ExpandedProgram, cluster: Cluster) -> Timeline:
    """Times of one step without contention.

    ready = latest end of the op before it in its lane and of what it waits for; start = latest ready of its group;
    end = start + latency + amount / speed alone. What an op waits for stands before it in the program.
    """
    folding = cluster.folding
    shape = (program.num_ops, folding.num_rank_classes)
    ready, start, end = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    took: dict[int, NDArray[np.float64]] = {}
    each = zip(program.ops, earlier(program), group_waits(cluster, program), strict=True)
    for index, (op, before, group_wait) in enumerate(each):
        if op.number not in took:
            priced = cluster.of(op)
            alone = np.array([work.alone_s for work in priced.works])
            took[op.number] = alone[folding.activity_of(priced.pattern)]
        for other in before:
            np.maximum(ready[index], end[other], out=ready[index])
        start[index] = ready[index]
        if group_wait is not None:
            group_wait.wait(start[index])
        np.add(start[index], took[op.number], out=end[index])
    return Timeline(ready=ready.T.copy(), start=start.T.copy(), end=end.T.copy(), num_solves=0)
