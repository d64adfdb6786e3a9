"""Points of a sweep beside each other: the next along an axis with all else equal, and the nearest of samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simfrontier.arrays import Ints
from simfrontier.records import dataclass

NUM_NEAREST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """For each point the place of the next one with less and with more on one axis, and all else equal; -1: none."""

    less: Ints
    more: Ints


def neighbours(axes: Sequence[Ints], axis: int) -> Neighbours:
    """The neighbours of all points along one of the axes. `axes`: for each the places of the points' values among its
    values in ascending order; what else tells points apart, as their scenario, is given as a further axis."""
    others = np.stack([*(places for at, places in enumerate(axes) if at != axis), np.zeros_like(axes[axis])])
    _, group = np.unique(others, axis=1, return_inverse=True)
    group = group.reshape(-1)
    order = np.lexsort((axes[axis], group))
    lines, values = group[order], axes[axis][order]
    is_new = np.concatenate(([True], (np.diff(lines) != 0) | (np.diff(values) != 0)))
    run, first = np.cumsum(is_new) - 1, np.flatnonzero(is_new)  # points with equal settings are one run
    less, more = np.full(order.size, -1), np.full(order.size, -1)
    for found, step in ((less, -1), (more, 1)):
        other = run + step
        exists = np.flatnonzero((other >= 0) & (other < first.size))
        there = first[other[exists]]
        same = lines[there] == lines[exists]
        found[order[exists[same]]] = order[there[same]]
    return Neighbours(less=less, more=more)


def nearest(axes: Sequence[Ints], is_ordered: Sequence[bool]) -> Ints:
    """For each point the places of the nearest others, nearest first, a row of `NUM_NEAREST`; -1 where there are fewer.
    The range of an axis of numbers has length 1; two texts lie 1 apart or more."""
    from scipy.spatial import cKDTree

    num_points = axes[0].size
    scaled = [
        places / max(1, int(places.max())) if ordered else places.astype(float)
        for places, ordered in zip(axes, is_ordered, strict=True)
    ]
    where = np.stack(scaled, axis=1)
    wanted = min(NUM_NEAREST + 1, num_points)
    _, found = cKDTree(where).query(where, k=wanted)
    found = found.reshape(num_points, wanted)
    out = np.full((num_points, NUM_NEAREST), -1)
    is_other = found != np.arange(num_points)[:, None]
    is_other[is_other.all(axis=1), -1] = False  # many points at one place: the point itself need not be among them
    out[:, : wanted - 1] = found[is_other].reshape(num_points, wanted - 1)
    return out
