"""Max-min fair rates by progressive filling, as a pure function of loads, capacities and rate limits."""

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats

TIE = 1e-12  # relative distance within which two rates are equal


def solve(usage: Floats, capacity: Floats, cap: Floats, runs: NDArray[np.bool_] | None = None) -> Floats:
    """Return the max-min fair rate of every activity, for one problem, or for a batch of problems with the same loads.

    usage     [num_links, num_activities]  use of each link per unit of activity rate, >= 0
    capacity  [num_links]                  capacity of each link per second, >= 0
    cap       [num_activities]             largest rate of each activity, np.inf if unlimited
    runs      [num_activities]             mask of the running activities, None for all; other activities have rate 0

    For a batch, all arguments but `usage` have a last dimension [num_problems], and so has the result. An activity that
    uses no link runs at its cap (which may be infinite).

    Method: all rates rise together until a constraint, which is a full link or a reached cap, stops them. A constraint
    that is reached before every other constraint on the same activities fixes their rates. One iteration handles all
    such constraints at once, as they are independent of each other (bottleneck ordering; Bertsekas and Gallager, Data
    Networks, section 6.5.2).
    """
    if cap.ndim == 1:
        own = None if runs is None else runs[:, None]
        return solve(usage, capacity[:, None], cap[:, None], own)[:, 0]
    uses = usage > 0.0
    rate = np.zeros(cap.shape)
    free = np.ones(cap.shape, bool) if runs is None else runs.copy()
    fill = np.zeros(capacity.shape)  # the rate at which each link is full
    while free.any():
        asked = usage @ free.astype(np.float64)
        left = np.divide(capacity - usage @ rate, asked, out=np.full(capacity.shape, np.inf), where=asked > 0.0)
        np.maximum(fill, left, out=fill)  # monotone up to rounding
        first = np.where(uses[:, :, None], fill[:, None], np.inf).min(axis=0, initial=np.inf)
        bound = np.minimum(first, cap)
        least = np.where(uses[:, :, None] & free, bound, np.inf).min(axis=1, initial=np.inf)
        is_full = fill <= least * (1.0 + TIE)
        stop = free & ((uses[:, :, None] & is_full[:, None]).any(axis=0) | (cap <= first * (1.0 + TIE)))
        stop &= bound < np.inf
        if not stop.any():
            rate[free] = np.inf
            break
        rate[stop] = bound[stop]
        free &= ~stop
    return np.where(rate >= cap * (1.0 - TIE), cap, rate)
