"""What is under way in the engine: calls that run op by op, calls that run as a whole, and how each ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

import numpy as np

from simfrontier.core.engine.context import CallAlone, Classes, InnerCall
from simfrontier.core.engine.flows import RunningFlow
from simfrontier.core.engine.timeline import CallTimes
from simfrontier.core.program import Issuer


@dataclass(slots=True, eq=False)
class Ending:
    """What ends: a node, an op of a call that runs op by op (`inner`), or a call that runs as a whole, on rank classes.

    `key` is the number of the node, counted on from role to role; calls that roles share have that of the first role.
    """

    key: int
    classes: Classes
    inner: int = -1


@dataclass(slots=True)
class CallByOps:
    """A call that a rank class runs op by op: its node, the rank classes that its collectives couple with this one, how
    far it is, and the times so far."""

    node: int
    key: int
    coupled: Classes
    inner: InnerCall
    issuer: Issuer
    ready: list[float]
    start: list[float]
    end: list[float]

    def times(self) -> CallTimes:
        """When its ops ran."""
        return CallTimes(ready=np.array(self.ready), start=np.array(self.start), end=np.array(self.end))

    def goes_on(self, since: float, alone: CallTimes) -> None:
        """Write down the times of what is not done, of the call by itself since some instant."""
        done, position, lane = (
            self.issuer.done,
            self.inner.segmented.program.position,
            self.inner.segmented.program.lane,
        )
        later = [op for op, number in enumerate(position) if number >= done[lane[op]]]
        for table, times in ((self.ready, alone.ready), (self.start, alone.start), (self.end, alone.end)):
            for op in later:
                table[op] = since + float(times[op])


@dataclass(slots=True, eq=False)
class WholeCalls:
    """Equal calls that run as a whole, one after another: their nodes, when each begins, the number of the last,
    the links that each loads, and the call by itself. `begun`: by rank class, where the first has run op by op before.
    """

    role: int
    nodes: list[int]
    begins: list[float]
    key: int
    classes: Classes
    load: int
    alone: CallAlone
    left: set[int]  # rank classes on which the last has not ended
    begun: dict[int, CallByOps]


def is_end_of(what: Ending | RunningFlow, key: int, classes: set[int]) -> bool:
    """Whether it is the end of a call that runs as a whole on some of these rank classes."""
    return isinstance(what, Ending) and what.key == key and what.inner < 0 and classes.issuperset(what.classes)


@overload
def taken_over(what: RunningFlow, key: int) -> RunningFlow: ...
@overload
def taken_over(what: Ending | RunningFlow, key: int) -> Ending | RunningFlow: ...
def taken_over(what: Ending | RunningFlow, key: int) -> Ending | RunningFlow:
    """What is under way in a call that runs by itself, as it is in the step: nodes of the call are its inner ops."""
    if isinstance(what, Ending):
        return Ending(key, what.classes, what.key)
    what.op, what.rate = taken_over(what.op, key), 0.0
    if what.then is not None:
        what.then = taken_over(what.then, key)
    return what
