"""Places of rows among those of their group, the best first."""

from __future__ import annotations

import numpy as np

from simfrontier.arrays import Floats, Ints
from simfrontier.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """For each row its place in its group (equal values share a place) and how many have one; 0: it has no value."""

    place: Ints
    among: Ints

    def at(self, rows: Ints) -> Ranks:
        return Ranks(place=self.place[rows], among=self.among[rows])


def ranks(values: Floats, groups: Ints) -> Ranks:
    """Ranks by values of which more is better. NaN has none."""
    place, among = np.zeros(values.size, dtype=np.int64), np.zeros(values.size, dtype=np.int64)
    known = np.flatnonzero(~np.isnan(values))
    if known.size:
        order = known[np.lexsort((-values[known], groups[known]))]
        group, ordered = groups[order], values[order]
        starts = np.concatenate(([True], np.diff(group) != 0))
        is_new = starts | np.concatenate(([True], np.diff(ordered) != 0))
        at = np.arange(order.size)
        first = np.maximum.accumulate(np.where(starts, at, 0))
        place[order] = np.maximum.accumulate(np.where(is_new, at, 0)) - first + 1
        sizes = np.diff(np.append(np.flatnonzero(starts), order.size))
        among[order] = np.repeat(sizes, sizes)
    return Ranks(place=place, among=among)
