"""What is under way in the engine: calls that run op by op, calls that run as a whole, and how each ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import overload

from simfrontier.schedule import Issuer
from simfrontier.simulation.context import Classes, InnerCall
from simfrontier.simulation.flows import RunningFlow
from simfrontier.simulation.timeline import CallTimes


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
    """A call that a rank class runs op by op: its node, how far it is, and the times so far."""

    node: int
    key: int
    inner: InnerCall
    issuer: Issuer
    ready: list[float]
    start: list[float]
    end: list[float]


@dataclass(slots=True, eq=False)
class WholeCalls:
    """Equal calls that run as a whole, one after another: their nodes, when each begins, the number of the last,
    the links that each loads, and the times of its ops from its begin."""

    role: int
    nodes: list[int]
    begins: list[float]
    key: int
    classes: Classes
    load: int
    times: Mapping[int, CallTimes]
    left: set[int]  # rank classes on which the last has not ended


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
