"""What is under way in the engine: calls that run op by op, calls that run as a whole, and how each ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from simfrontier.base.arrays import Ints
from simfrontier.base.errors import SimfrontierError
from simfrontier.base.units import written
from simfrontier.core.cost import Pricing
from simfrontier.core.engine.context import CallAlone, Classes, InnerCall
from simfrontier.core.engine.flows import RunningFlow
from simfrontier.core.engine.timeline import CallTimes
from simfrontier.core.network import dead_wires
from simfrontier.core.program import Issuer, Op
from simfrontier.core.trace import ranges_text


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


MOST_NAMED = 4  # dead links by name in one line


class JobStopsError(SimfrontierError):
    """Something that a step needs is dead and does not come back."""


def job_stops(pricing: Pricing, standing: Sequence[tuple[Op, int]], seconds: float) -> JobStopsError:
    """The error of ops that stand still for good, each on the groups of an activity class of its pattern, so many
    seconds after the step began."""
    fabric = pricing.fabric
    is_member, is_loaded = np.zeros(fabric.num_ranks, bool), np.zeros(fabric.num_links, bool)
    for op, group in standing:
        key = pricing.of(op).pattern
        pattern = pricing.counted.get(key, pricing.patterns[key])
        is_one = pricing.folding.activity_class[key] == group
        is_member |= is_one[pattern.group_of]
        mine = slice(0, pattern.num_wire_loads)
        is_loaded[pattern.link[mine][is_one[pattern.act[mine]]]] = True
    ranks = np.flatnonzero(is_member)
    lost = ranks[(fabric.speed[ranks] == 0.0) | (fabric.capacity[fabric.hbm_of[ranks]] == 0.0)]
    why = f"dead: {_things('device', fabric.device_of[lost])}"
    if not len(lost):
        links = np.flatnonzero(is_loaded & dead_wires(fabric))
        lost, why = _behind(pricing, ranks, links), f"dead, with no other way: {_links(pricing, links)}"
    return _stops(standing[0][0], ranks, lost, why, seconds)


def messages_stop(pricing: Pricing, op: Op, ranks: Ints, links: Ints, seconds: float) -> JobStopsError:
    """The error of messages among some ranks, of the op and others, that wait on their routes for dead links, so many
    seconds after the step began."""
    why = f"dead, and single messages keep to their routes: {_links(pricing, links)}"
    return _stops(op, ranks, _behind(pricing, ranks, links), why, seconds)


def _links(pricing: Pricing, links: Ints) -> str:
    named = [pricing.fabric.describe(link) for link in links[:MOST_NAMED].tolist()]
    return ", ".join(named) + (f" and {len(links) - MOST_NAMED} more" if len(links) > MOST_NAMED else "")


def _stops(op: Op, ranks: Ints, lost: Ints, why: str, seconds: float) -> JobStopsError:
    others = np.setdiff1d(ranks, lost)
    who = f"{_things('rank', others)} lost {_things('rank', lost)}" if len(others) else f"{_things('rank', lost)} lost"
    return JobStopsError(f"the job stops at {written(seconds, 's')} of the step in {op.name}: {who}; {why}")


def _behind(pricing: Pricing, ranks: Ints, links: Ints) -> Ints:
    """Of some ranks those that dead links cut off: on the device or the node that a link belongs to, or in the group of
    nodes that a pool leads to."""
    fabric = pricing.fabric
    per_node = fabric.machine.devices_per_node
    devices = fabric.device_of[ranks]
    behind = np.zeros(len(ranks), bool)
    between: dict[int, list[tuple[int, int]]] = {}  # by node: the ends of dead links between devices
    for link in links.tolist():
        if link >= fabric.pool_base:
            groups = fabric.group_of_node[devices // per_node]
            behind |= groups == fabric.pools.leads_to(link - fabric.pool_base)
            continue
        node, wire = divmod(link, fabric.wires_per_node)
        source, target = fabric.machine.node.links[wire].src, fabric.machine.node.links[wire].dst
        if isinstance(source, int) and isinstance(target, int):
            between.setdefault(node, []).append((source, target))
        elif wire < fabric.machine.node.num_inside and (isinstance(source, int) or isinstance(target, int)):
            behind |= devices == node * per_node + (source if isinstance(source, int) else target)
        else:
            behind |= devices // per_node == node
    for node, ends in between.items():
        common = set.intersection(*map(set, ends))
        cut_off = common if len(common) == 1 else {target for _, target in ends}
        behind |= np.isin(devices, [node * per_node + device for device in cut_off])
    return ranks[behind]


def _things(what: str, numbers: Ints) -> str:
    """`rank 3`, `ranks 0-7`."""
    return f"{what}{'s' if len(numbers) > 1 else ''} {ranges_text(np.sort(numbers).tolist())}"
