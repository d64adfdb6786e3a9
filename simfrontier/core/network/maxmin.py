"""Max-min fair rates by progressive filling: a pure function of loads, capacities, weights and caps."""

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats

Flags = NDArray[np.bool_]

TIE = 1e-12  # relative distance within which two levels are one


def solve(usage: Floats, capacity: Floats, weight: Floats, cap: Floats) -> Floats:
    """Rate of every activity when the levels (rate / weight) are max-min fair.

    usage     [num_links, num_activities]  resource taken per unit of rate, >= 0
    capacity  [num_links]                  resource per second, >= 0
    weight    [num_activities]             > 0
    cap       [num_activities]             largest rate of its own, np.inf for none

    An activity that uses no link runs at its cap (which may be infinite).
    Method: all levels rise together; a link that fills before any other of the links and caps that stop its activities
    stops them, as does a cap that is reached before any link of its activity fills; all such links and caps at once,
    as none of them waits for another (bottleneck ordering; Bertsekas and Gallager, Data Networks, section 6.5.2).
    """
    load = usage * weight  # resource per unit of level
    top = cap / weight  # level at which an activity's own cap stops it
    uses = load > 0.0
    level = np.zeros(usage.shape[1])
    free = np.ones(usage.shape[1], bool)
    rise = np.zeros(len(capacity))
    while free.any():
        # level at which link l fills = (capacity_l - load of the stopped) / (load of the free per unit of level)
        taken = load @ free.astype(np.float64)
        spare = np.divide(capacity - load @ level, taken, out=np.full(len(capacity), np.inf), where=taken > 0.0)
        np.maximum(rise, spare, out=rise)  # it only ever rises, but for rounding
        first = np.where(uses, rise[:, None], np.inf).min(axis=0, initial=np.inf)
        bound = np.minimum(first, top)
        fills = rise <= np.where(uses & free, bound, np.inf).min(axis=1, initial=np.inf) * (1.0 + TIE)
        stop = free & (uses[fills].any(axis=0) | (top <= first * (1.0 + TIE))) & (bound < np.inf)
        if not stop.any():
            level[free] = np.inf
            break
        level[stop] = bound[stop]
        free &= ~stop
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
