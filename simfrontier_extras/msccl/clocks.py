"""Vector clocks of thread blocks: the steps of other thread blocks that are certain to be over, as implied by waits and
messages.

The vector clock of a thread block states for every thread block of any GPU how many of its steps are over, whatever the
speed of execution. Two accesses to one address, at least one of them a write, are ordered if the clock of the later
access includes the step of the earlier one.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

Clock = NDArray[np.unsignedinteger]
Place = tuple[int, int]  # GPU, and number of the chunk there


class Clocks:
    """The clocks of all thread blocks, their flags, and the last readers and the last writer of every address;
    `most_steps`: the largest number of steps in a thread block."""

    def __init__(self, num_blocks: int, most_steps: int) -> None:
        narrowest = np.min_scalar_type(most_steps)
        self.known: list[Clock] = [np.zeros(num_blocks, narrowest) for _ in range(num_blocks)]
        self.flags: list[list[tuple[int, Clock]]] = [[] for _ in range(num_blocks)]
        self.writer: dict[Place, tuple[int, int]] = {}
        self.readers: dict[Place, dict[int, int]] = {}

    def finish(self, block: int, num_steps: int, raises_flag: bool) -> None:
        """Note that `num_steps` steps of a thread block are over; with `raises_flag` its flag shows this to others."""
        self.known[block][block] = num_steps
        if raises_flag:
            self.flags[block].append((num_steps - 1, self.known[block].copy()))

    def join_flag(self, block: int, other: int, step: int) -> bool:
        """Return whether the flag of `other` has reached a step; if so, merge the clock that `other` had at that step
        into the clock of `block`."""
        at = bisect_left(self.flags[other], step, key=itemgetter(0))
        if at == len(self.flags[other]):
            return False
        self.join(block, self.flags[other][at][1])
        return True

    def join(self, block: int, clock: Clock) -> None:
        """Merge a clock into the clock of a thread block."""
        np.maximum(self.known[block], clock, out=self.known[block])

    def sent(self, block: int, num_steps: int) -> Clock:
        """Return the clock that a message of a thread block carries after `num_steps` of its steps."""
        clock = self.known[block].copy()
        clock[block] = num_steps
        return clock

    def read(self, block: int, step: int, place: Place) -> tuple[int, int] | None:
        """Note that a step reads an address; return the (thread block, step) of a write to it that is not ordered with
        this read, or None."""
        self.readers.setdefault(place, {})[block] = step
        return self._not_before(block, self.writer.get(place))

    def write(self, block: int, step: int, place: Place) -> tuple[int, int] | None:
        """Note that a step writes an address; return the (thread block, step) of a read or write of it that is not
        ordered with this write, or None."""
        before = [self.writer.get(place), *sorted(self.readers.pop(place, {}).items())]
        self.writer[place] = block, step
        return next(filter(None, (self._not_before(block, each) for each in before)), None)

    def _not_before(self, block: int, other: tuple[int, int] | None) -> tuple[int, int] | None:
        if other is None or other[0] == block or self.known[block][other[0]] > other[1]:
            return None
        return other
