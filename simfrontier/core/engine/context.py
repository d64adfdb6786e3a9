"""State shared by all simulations of one pricing (prepared ops, flow rates, and the results of program calls simulated
alone), and the items that the engine has in progress.

A program call is a part of a role's program, such as one layer's forward; one program node may represent all its ops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import overload

import numpy as np

from simfrontier.base.arrays import Ints
from simfrontier.core.cost import Flow, OpWork, Pricing
from simfrontier.core.engine.flow_rates import FlowRates
from simfrontier.core.engine.flows import RunningFlow
from simfrontier.core.engine.timeline import CallTimes
from simfrontier.core.program import Compute, Issuer, Op, Role, Segment, SegmentedProgram

Block = tuple[Op, ...]
Classes = tuple[int, ...]


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.13g}")


@dataclass(slots=True)
class OpInfo:
    """Work of one op on each activity class, the activity class of each rank class, and the rank classes of each
    activity class."""

    works: tuple[OpWork, ...]
    group_of: list[int]
    members: tuple[Classes, ...]


@dataclass(frozen=True, slots=True)
class InnerCall:
    """Ops of a program call that one program node represents, as a program of their own."""

    segmented: SegmentedProgram
    infos: list[OpInfo]


@dataclass(frozen=True, slots=True)
class CallAlone:
    """Result of simulating a program call alone: the times of the call's ops on each rank class, and the times at which
    the call ends, each with the rank classes that end at that time."""

    times: Mapping[int, CallTimes]
    ends: tuple[tuple[float, Classes], ...]


@dataclass(slots=True, eq=False)
class Ending:
    """End of an item on some rank classes: of a program node, of op `inner` of a program call that runs op by op, or of
    a program call that runs as a whole.

    `key` is the number of the program node, counted through all roles; a call shared by several roles has the number
    that it has in the first of them.
    """

    key: int
    classes: Classes
    inner: int = -1


@dataclass(slots=True)
class CallByOps:
    """Program call that a rank class runs op by op: the call's program node, its issuer, and the times of its ops so
    far."""

    node: int
    key: int
    inner: InnerCall
    issuer: Issuer
    ready: list[float]
    start: list[float]
    end: list[float]

    def times(self) -> CallTimes:
        """Return the times of the call's ops on this rank class."""
        return CallTimes(ready=np.array(self.ready), start=np.array(self.start), end=np.array(self.end))


@dataclass(slots=True, eq=False)
class WholeCalls:
    """Equal program calls that run as a whole, one after another: their program nodes, the time at which each begins,
    the key of the last one, the link classes that each call loads, and the result of simulating one of them alone."""

    role: int
    nodes: list[int]
    begins: list[float]
    key: int
    classes: Classes
    load: int
    alone: CallAlone
    left: set[int]  # rank classes on which the last has not ended


def is_end_of(what: Ending | RunningFlow, key: int, classes: set[int]) -> bool:
    """Return whether `what` is the end, on some of these rank classes, of the program call `key` that runs as a
    whole."""
    return isinstance(what, Ending) and what.key == key and what.inner < 0 and classes.issuperset(what.classes)


@overload
def taken_over(what: RunningFlow, key: int) -> RunningFlow: ...
@overload
def taken_over(what: Ending | RunningFlow, key: int) -> Ending | RunningFlow: ...
def taken_over(what: Ending | RunningFlow, key: int) -> Ending | RunningFlow:
    """Convert an item in progress from the simulation of a call alone to the simulation of the step: the program nodes
    of the call's own simulation become the inner ops of the call `key`."""
    if isinstance(what, Ending):
        return Ending(key, what.classes, what.key)
    what.op, what.rate = taken_over(what.op, key), 0.0
    if what.then is not None:
        what.then = taken_over(what.then, key)
    return what


class EngineContext:
    """State shared by all simulations of one pricing: work and groups of ops, loads of flows, flow rates, and the
    results of program calls simulated alone.

    If several jobs are simulated together, each job has its own context: the numbers of its rank classes begin at
    `first`, `rates` holds the flows of all jobs, and `link_number` [num_link_classes] maps the job's link classes to
    the link classes in `rates`.
    """

    def __init__(
        self, pricing: Pricing, first: int = 0, rates: FlowRates | None = None, link_number: Ints | None = None
    ) -> None:
        self.pricing, self.first, self.link_number = pricing, first, link_number
        self.rates = FlowRates([], pricing.folding.capacity) if rates is None else rates
        self.is_dead = pricing.folding.capacity == 0.0  # [num_link_classes]
        self.some_dead = bool(self.is_dead.any()) or not pricing.fabric.speed.all()
        self.alone: dict[tuple[Segment, Classes], CallAlone] = {}
        self._flows: dict[int, int] = {}  # number of each own flow among those of all jobs
        self._groups: dict[str, tuple[list[int], tuple[Classes, ...]]] = {}
        self._infos: dict[int, OpInfo] = {}
        self._inner: dict[Segment, InnerCall] = {}
        self._coupled: dict[tuple[Segment, Classes], dict[int, Classes]] = {}
        self._loads: dict[tuple[Segment, Classes], int] = {}
        self._still: dict[tuple[Segment, Classes], bool] = {}

    def infos(self, part: SegmentedProgram) -> list[OpInfo | None]:
        """Return the info of each program node of a role; None for a node that represents a whole program call."""
        return [
            self.info(op) if block is None else None for op, block in zip(part.program.ops, part.blocks, strict=True)
        ]

    def info(self, op: Op) -> OpInfo:
        """Return the work of an op on each activity class, and the groups that take part in it."""
        known = self._infos.get(op.number)
        if known is None:
            priced = self.pricing.of(op)
            works = priced.works
            if self.some_dead:
                works = tuple(self._moving(work, priced.pattern, group) for group, work in enumerate(works))
            works = tuple(map(self._numbered, works))
            known = self._infos[op.number] = OpInfo(works, *self._group(priced.pattern))
        return known

    def _numbered(self, work: OpWork) -> OpWork:
        """Return the work with flow numbers that are valid across all jobs. Latencies are rounded, so that latencies
        that differ only by floating-point errors become equal and equal classes end at the same time."""
        flow, starting = self._flow(work.flow), self._flow(work.starting)
        return OpWork(_rounded(work.latency_s), work.amount, work.alone, flow, starting)

    def _flow(self, own: int) -> int:
        if own >= 0 and own not in self._flows:
            flow = self.pricing.flows[own]
            if self.link_number is not None:
                flow = replace(flow, rows=self.link_number[flow.rows])
            self._flows[own] = self.rates.add(flow)
        return self._flows[own] if own >= 0 else -1

    @cached_property
    def idle(self) -> int:
        """Number of a flow that loads and reserves no link; its amount is in seconds."""
        none = np.empty(0)
        return self.rates.add(Flow(np.empty(0, np.int64), none, none, 1.0))

    def _moving(self, work: OpWork, pattern: str, group: int) -> OpWork:
        """Return the work unchanged, or a work that stands still if the flow loads a dead component."""
        if work.amount > 0.0 and not work.stands_still:
            flow = self.pricing.flows[work.flow]
            if self.is_dead[flow.rows[flow.load > 0.0]].any():
                return self.pricing.still(pattern, group, work.amount)
        return work

    def stands_still(self, part: SegmentedProgram, node: int, classes: Classes) -> bool:
        """Return whether any op of a program call stands still (needs a dead component) on any of these rank
        classes."""
        if not self.some_dead:
            return False
        key = part.segment(node), classes
        if key not in self._still:
            infos = [self.info(op) for op in {op.number: op for op in part.block(node)}.values()]
            self._still[key] = any(info.works[info.group_of[cls]].stands_still for info in infos for cls in classes)
        return self._still[key]

    def _group(self, pattern: str) -> tuple[list[int], tuple[Classes, ...]]:
        """Return the group (activity class) of every rank class in a pattern, and the rank classes of every group."""
        known = self._groups.get(pattern)
        if known is None:
            folding = self.pricing.folding
            members = tuple(tuple(self.first + cls for cls in sorted(each)) for each in folding.members(pattern))
            known = self._groups[pattern] = [-1] * self.first + folding.activity_of(pattern).tolist(), members
        return known

    def inner(self, part: SegmentedProgram, node: int) -> InnerCall:
        """Return the program call that a program node represents, as a program of single ops."""
        block, number = part.block(node), part.segment(node)
        known = self._inner.get(number)
        if known is None:
            role = Role(part.role.name, (replace(part.program.calls[node], ops=block),), part.role.at)
            segmented = SegmentedProgram.of_ops(self.pricing.schedule, role)
            known = self._inner[number] = InnerCall(segmented, [self.info(op) for op in block])
        return known

    def load(self, part: SegmentedProgram, node: int, classes: Classes) -> int:
        """Return the set of link classes that a program call loads on these rank classes, as a bit mask."""
        key = part.segment(node), classes
        if key not in self._loads:
            total = 0
            for op in {op.number: op for op in part.block(node)}.values():
                info = self.info(op)
                for work in [info.works[group] for group in {info.group_of[cls] for cls in classes}]:
                    for flow in (work.flow, work.starting):
                        total |= self.rates.load(flow) if work.amount > 0.0 and flow >= 0 else 0
            self._loads[key] = total
        return self._loads[key]

    def coupled(self, part: SegmentedProgram, node: int, classes: Classes) -> dict[int, Classes]:
        """Return for each rank class the set of rank classes with which the collectives of a program call synchronise
        it; the set includes the rank class itself."""
        key = part.segment(node), classes
        if key not in self._coupled:
            leader = {cls: cls for cls in classes}
            for op in {op.number: op for op in part.block(node) if not isinstance(op, Compute)}.values():
                info = self.info(op)
                for cls in classes:
                    one, other = leader[cls], leader[info.members[info.group_of[cls]][0]]
                    leader = {c: other if to == one else to for c, to in leader.items()}
            sets: dict[int, list[int]] = {}
            for cls in classes:
                sets.setdefault(leader[cls], []).append(cls)
            self._coupled[key] = {cls: tuple(sets[leader[cls]]) for cls in classes}
        return self._coupled[key]
