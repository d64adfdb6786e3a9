"""Max-min fair rates by progressive filling: a pure function of loads, capacities, weights and caps."""

import numpy as np

from simfrontier.arrays import Floats

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
        stop = ((rise <= edge).astype(np.float64) @ load > 0.0) | (ceiling <= edge)
        stop &= free > 0.0
        level[stop] = reached
        free[stop] = 0.0
    return np.where(level >= top * (1.0 - TIE), cap, weight * level)
