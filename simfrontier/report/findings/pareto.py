"""The Pareto front of rows in two quantities: those that no other row is better than."""

from __future__ import annotations

import numpy as np

from simfrontier.arrays import Floats, Ints
from simfrontier.study import Better


def front_of(x: Floats, y: Floats, x_better: Better, y_better: Better) -> Ints:
    """Places of the rows on the front, the best in `x` first. A row is on it unless another is at least as good in both
    and better in one; rows that are equal in both are on it together. NaN: the row is left out."""
    across, up = _costs(x, x_better), _costs(y, y_better)
    known = np.flatnonzero(np.isfinite(across) & np.isfinite(up))
    if not known.size:
        return known
    order = known[np.lexsort((known, up[known], across[known]))]
    least = np.minimum.accumulate(up[order])  # of all that are no worse in x
    before = np.concatenate(([np.inf], least[:-1]))
    again = np.concatenate(([False], (np.diff(across[order]) == 0) & (np.diff(up[order]) == 0)))
    better = up[order] < before
    for place in np.flatnonzero(again):  # a copy of the row before it shares its fate
        better[place] = better[place - 1]
    return order[better]


def _costs(values: Floats, better: Better) -> Floats:
    return -values if better == "more" else values
