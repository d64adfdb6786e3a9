"""Which points of a sweep a page shows where it cannot hold all of their rows."""

from __future__ import annotations

import numpy as np

from simfrontier.arrays import Ints


def kept_points(num_rows: Ints, always: Ints, most_rows: int) -> Ints:
    """Places of points, ascending, that have at most so many rows together. `num_rows`: of each point; `always`: points
    that are kept before any other. The others are taken at even distances; so are those of `always` where not even
    they have room."""
    if num_rows.sum() <= most_rows:
        return np.arange(num_rows.size)
    first = _evenly(np.unique(always), num_rows, most_rows)
    others = np.setdiff1d(np.arange(num_rows.size), always)
    return np.sort(np.concatenate((first, _evenly(others, num_rows, most_rows - int(num_rows[first].sum())))))


def _evenly(points: Ints, num_rows: Ints, room: int) -> Ints:
    """As many of these points at even distances as have room."""
    taken, count = points, points.size
    while (used := int(num_rows[taken].sum())) > room:
        count = min(count - 1, int(count * room / used))
        if count <= 0:
            return points[:0]
        taken = points[(np.arange(count) * points.size) // count]
    return taken
