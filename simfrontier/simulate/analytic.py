"""Fidelity `analytic`: every op takes its closed-form time alone, so a step is one pass over the program, without a
clock."""

from __future__ import annotations

import numpy as np

from simfrontier.schedule.expand import Expanded
from simfrontier.schedule.issuer import ops_by_lane
from simfrontier.simulate.pricing import Cluster
from simfrontier.simulate.timeline import Timeline


def analytic(program: Expanded, cluster: Cluster) -> Timeline:
    """Times of one step without contention.

    ready = latest end of the op before it in its lane and of what it waits for; start = latest ready of its group;
    end = start + latency + amount / speed alone. What an op waits for stands before it in the program.
    """
    folding = cluster.folding
    by_lane = ops_by_lane(program)
    shape = (program.num_ops, folding.num_rank_classes)
    ready, start, end = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    groups = {key: (folding.activity_of(key), len(folding.count(key))) for key in cluster.patterns}
    took = {}
    for index, op in enumerate(program.ops):
        if id(op) not in took:
            priced = cluster.of(op)
            of_class, num_groups = groups[priced.pattern]
            alone = np.array([work.alone_s for work in priced.works])[of_class]
            took[id(op)] = (alone, of_class, num_groups)
        alone, of_class, num_groups = took[id(op)]
        mine = ready[index]
        if program.position[index]:
            mine[:] = end[by_lane[program.lane[index]][program.position[index] - 1]]
        for lane, count in program.waits[index]:
            np.maximum(mine, end[by_lane[lane][count - 1]], out=mine)
        if num_groups == 1:
            start[index] = mine.max()
        elif num_groups == len(mine):
            start[index] = mine
        else:
            latest = np.zeros(num_groups)
            np.maximum.at(latest, of_class, mine)
            start[index] = latest[of_class]
        np.add(start[index], alone, out=end[index])
    return Timeline(ready=ready.T.copy(), start=start.T.copy(), end=end.T.copy(), num_solves=0)
