"""Max-min fair rates by progressive filling: a pure function of loads, capacities, weights and caps."""

import numpy as np
from numpy.typing import NDArray

from simfrontier.arrays import Floats

Flags = NDArray[np.bool_]

TIE = 1e-12  # relative distance within which two levels are one


def solve(usage: Floats, capacity: Floats, weight: Floats, cap: Floats) -> Floats:
    """Rate of every activity when the levels (rate / weight) are max-min fair.

    usage     [num_links, num_activities]  resource taken per unit of rate, >= 0
    capacity  [num_links]                  resource per second, >= 0
    weight    [num_activities]             > 0
    cap       [num_activities]             largest rate of its own, np.inf for none

    An activity that uses no link runs at its cap (which may be infinite).
    Method: all levels rise together; at each step the first link to fill, or the first cap to be
    reached, stops the activities it concerns (Bertsekas and Gallager, Data Networks, section 6.5.2).
    """
    num = usage.shape[1]
    load = usage * weight  # resource per unit of level
    top = cap / weight  # level at which an activity's own cap stops it
    level = np.zeros(num)
    free = np.ones(num)  # 1.0 while the level still rises: a float, so that one product gives sums
    rise = np.empty(len(capacity))
    reached = 0.0
    while free.any():
        # level at which link l fills = (capacity_l - load of the stopped) / (load of the free per unit of level)
        taken = load @ free
        rise.fill(np.inf)
        np.divide(capacity - load @ level, taken, out=rise, where=taken > 0.0)
        ceiling = np.where(free > 0.0, top, np.inf)
        reached = max(reached, float(min(rise.min(initial=np.inf), ceiling.min())))
        if reached == np.inf:
            level[free > 0.0] = np.inf
            break
        edge = reached * (1.0 + TIE)
        stop = (load[rise <= edge] > 0.0).any(axis=0) | (ceiling <= edge)
        stop &= free > 0.0
        level[stop] = reached
        free[stop] = 0.0
    return np.where(level >= top * (1.0 - TIE), cap, weight * level)


def solve_each(usage: Floats, capacity: Floats, taken: Floats, cap: Floats, runs: Flags) -> tuple[Floats, Floats]:
    """Many small problems side by side, with weights 1: rates, and the level at which each link filled, inf if never.

    usage     [num_links, num_activities, num_problems]
    capacity  [num_links, num_problems]
    taken     [num_links, num_problems]       what activities with rates of their own take of the links already
    cap       [num_activities, num_problems]  np.inf for none, at which what uses no link then runs
    runs      [num_activities, num_problems]  which activities there are; the rate of others is 0
    """
    level, free, reached = np.zeros(cap.shape), runs.copy(), np.zeros(cap.shape[1])
    filled = np.full(capacity.shape, np.inf)
    while free.any():
        asked = (usage * free).sum(axis=1)
        left = capacity - (taken + (usage * level).sum(axis=1))
        rise = np.divide(left, asked, out=np.full(capacity.shape, np.inf), where=asked > 0.0)
        ceiling = np.where(free, cap, np.inf)
        reached = np.maximum(reached, np.minimum(rise.min(axis=0, initial=np.inf), ceiling.min(axis=0)))
        edge = reached * (1.0 + TIE)
        full = rise <= edge
        np.minimum(filled, reached, out=filled, where=full)
        stop = free & (((usage > 0.0) & full[:, None]).any(axis=0) | (ceiling <= edge))
        level[stop] = np.broadcast_to(reached, level.shape)[stop]
        free &= ~stop
    return np.where(level >= cap * (1.0 - TIE), cap, level) * runs, filled
