"""The clock of every rank class, what its lanes do, and the way back."""

from __future__ import annotations

import numpy as np

from simfrontier.arrays import Floats, Ints
from simfrontier.records import dataclass

IDLE, RUNS, WAITS, MEETS = range(4)  # a lane: nothing started, a kernel, a collective that lacks ranks, one under way


@dataclass(frozen=True, slots=True, eq=False)
class _Before:
    """Some rank classes, in ascending order, before an event of each, the last of which is at `last`."""

    who: Ints
    last: float
    now: Floats
    counts: Ints
    times: Floats


class ClassClocks:
    """Arrays over rank classes, most by lane [num_lanes, num_classes].

    now    [num_classes] the time of the class's last event
    done   number of ops of the lane that are done
    lane   IDLE, RUNS, WAITS or MEETS
    until  when the lane's kernel ends; inf where nothing ends by itself
    left, rate, since  of a kernel that flows: what was left of its amount at a time, and its rate from then on
    """

    def __init__(self, num_lanes: int, num_classes: int) -> None:
        self.now = np.zeros(num_classes)
        self._counts = np.zeros((2, num_lanes, num_classes), np.int64)
        self._times = np.zeros((4, num_lanes, num_classes))
        self.done, self.lane = self._counts
        self.until, self.left, self.rate, self.since = self._times
        self.until[:] = np.inf
        self._past: list[_Before] = []

    def move(self, who: Ints, then: Floats) -> None:
        """Set the clocks of classes, in ascending order, to their next events; how they were is remembered."""
        last = float(then.max())
        self._past.append(_Before(who, last, self.now[who], self._counts[:, :, who], self._times[:, :, who]))
        self.now[who] = then

    def take_back(self, who: Ints, now: Floats) -> Ints:
        """Undo all events of classes after `now` [num_classes]; the classes that had any."""
        late = changed = who[self.now[who] > now[who]]
        for before in reversed(self._past):
            if not len(late):
                break
            at = np.minimum(np.searchsorted(before.who, late), len(before.who) - 1)
            is_there = before.who[at] == late
            both, at = late[is_there], at[is_there]
            self.now[both] = before.now[at]
            self._counts[:, :, both] = before.counts[:, :, at]
            self._times[:, :, both] = before.times[:, :, at]
            late = late[self.now[late] > now[late]]
        return changed

    def forget(self, now: float) -> None:
        """Give up the way back to times before `now`."""
        self._past = [before for before in self._past if before.last > now]
