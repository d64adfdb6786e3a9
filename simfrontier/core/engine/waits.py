"""Who waits for whom: an op for the ends of earlier ones, and a rank class for the others of its group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfrontier.core.program import Issuer, Op


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupWait:
    """Who waits for whom on a pattern: rank classes sorted by group, where each group begins there, and each class's
    group."""

    order: NDArray[np.int64]
    first: NDArray[np.int64]
    group: NDArray[np.integer]

    @property
    def groups(self) -> tuple[list[int], ...]:
        """The rank classes of each group."""
        return tuple(each.tolist() for each in np.split(self.order, self.first[1:]))

    def after(self, ready: NDArray[np.float64]) -> NDArray[np.float64]:
        """The times at which the groups are ready of classes that are at these [num_rank_classes, ...]."""
        if len(self.first) == 1:
            return np.broadcast_to(ready.max(axis=0), ready.shape)
        together: NDArray[np.float64] = np.maximum.reduceat(ready[self.order], self.first, axis=0)[self.group]
        return together


def blocked_lines(who: str, issuer: Issuer, ops: Sequence[Op]) -> list[str]:
    """What the ops of a rank (or of a class) wait for that cannot start, one line each."""
    lines = []
    for op, lacking in issuer.blocked():
        waits = ", ".join(f"{lane} {done}/{needed}" for lane, done, needed in lacking)
        lines.append(f"{who}: {ops[op].name} waits for {waits}")
    return lines


def group_wait_of(group: NDArray[np.integer]) -> GroupWait | None:
    """Who waits for whom where rank classes are in these groups; None where each is a group by itself."""
    order = np.argsort(group, kind="stable")
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    if len(first) == len(group):
        return None
    of_label = np.cumsum(np.diff(group[order], prepend=-1) != 0) - 1
    place = np.empty(len(group), np.int64)
    place[order] = of_label
    return GroupWait(order=order, first=first, group=place)
