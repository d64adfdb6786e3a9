"""Leave-group-out validation: the points of each group are predicted by a fit that has seen none of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.workers import Local, Workers

Mask = NDArray[np.bool_]
Group = TypeVar("Group", bound=Hashable)
Fit = TypeVar("Fit")


def fits_without(
    groups: Sequence[Group],
    fit: Callable[[Mask], Fit],
    workers: Workers | None = None,
    progress: Callable[[Group], None] = lambda group: None,
) -> Iterator[tuple[Group, Mask, Fit]]:
    """Leave out each group of points in turn and fit the others: the group, which points are of it, and the fit.

    `groups`: the group of every point. `fit`: takes which points are left out. `workers`: who fits, a group at a time
    (None: this process); `progress` is called with each group as its fit is handed out.
    """
    members = {group: np.array([each == group for each in groups]) for group in dict.fromkeys(groups)}

    def calls() -> Iterator[tuple[Mask]]:
        for group, mask in members.items():
            progress(group)
            yield (mask,)

    made = (workers or Workers(Local())).in_order(fit, calls())
    for (group, mask), fitted in zip(members.items(), made, strict=True):
        yield group, mask, fitted
