"""State shared by all runs of the engine on one pricing: prepared ops, rates, and calls simulated alone; and the items
that the engine has in progress."""

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
    """Works and groups of one op by activity class, as the engine needs them."""

    works: tuple[OpWork, ...]
    group_of: list[int]
    members: tuple[Classes, ...]


@dataclass(frozen=True, slots=True)
class InnerCall:
    """The ops of a call that a node stands for."""

    segmented: SegmentedProgram
    infos: list[OpInfo]


@dataclass(frozen=True, slots=True)
class CallAlone:
    """A call simulated alone: the times of its ops on each rank class, and its ends, each with the rank classes that
    end then."""

    times: Mapping[int, CallTimes]
    ends: tuple[tuple[float, Classes], ...]


@dataclass(slots=True, eq=False)
class Ending:
    """The end of a node, of an op of a call that runs op by op (`inner`), or of a call that runs as a whole, on rank
    classes.

    `key` is the number of the node, counted on from role to role; calls shared by roles have that of the first role.
    """

    key: int
    classes: Classes
    inner: int = -1


@dataclass(slots=True)
class CallByOps:
    """A call that a rank class runs op by op: its node, its progress, and the times so far."""

    node: int
    key: int
    inner: InnerCall
    issuer: Issuer
    ready: list[float]
    start: list[float]
    end: list[float]

    def times(self) -> CallTimes:
        """Return the times of the call's ops."""
        return CallTimes(ready=np.array(self.ready), start=np.array(self.start), end=np.array(self.end))


@dataclass(slots=True, eq=False)
class WholeCalls:
    """Equal calls that run as a whole, one after another: their nodes, when each begins, the number of the last, the
    links that each loads, and the call simulated alone."""

    role: int
    nodes: list[int]
    begins: list[float]
    key: int
    classes: Classes
    load: int
    alone: CallAlone
    left: set[int]  # rank classes on which the last has not ended


def is_end_of(what: Ending | RunningFlow, key: int, classes: set[int]) -> bool:
    """Return whether `what` is the end of a call that runs as a whole on some of these rank classes."""
    return isinstance(what, Ending) and what.key == key and what.inner < 0 and classes.issuperset(what.classes)


@overload
def taken_over(what: RunningFlow, key: int) -> RunningFlow: ...
@overload
def taken_over(what: Ending | RunningFlow, key: int) -> Ending | RunningFlow: ...
def taken_over(what: Ending | RunningFlow, key: int) -> Ending | RunningFlow:
    """Convert an item in progress in a call that was simulated alone to one of the step: nodes of the call become inner
    ops."""
    if isinstance(what, Ending):
        return Ending(key, what.classes, what.key)
    what.op, what.rate = taken_over(what.op, key), 0.0
    if what.then is not None:
        what.then = taken_over(what.then, key)
    return what


class EngineContext:
    """Works and groups of ops, loads of flows, rates, and calls simulated alone, of a pricing.

    Each of several jobs that run together has its own context: its rank classes are numbered from `first` on, and
    `rates` are those of the flows of all jobs, on links of which its own have the numbers `link_number`
    [num_link_classes].
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
        """Return the info of each op of a role; None where a node stands for a call."""
        return [
            self.info(op) if block is None else None for op, block in zip(part.program.ops, part.blocks, strict=True)
        ]

    def info(self, op: Op) -> OpInfo:
        """Return works and groups of an op."""
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
        """Return a work with its flows numbered across all jobs. Latencies that differ only by rounding become equal,
        so that equal classes stay together."""
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
        """Number of a flow of seconds that loads and reserves nothing."""
        none = np.empty(0)
        return self.rates.add(Flow(np.empty(0, np.int64), none, none, 1.0))

    def _moving(self, work: OpWork, pattern: str, group: int) -> OpWork:
        """Return the work, or one that stands still if it loads a dead component."""
        if work.amount > 0.0 and not work.stands_still:
            flow = self.pricing.flows[work.flow]
            if self.is_dead[flow.rows[flow.load > 0.0]].any():
                return self.pricing.still(pattern, group, work.amount)
        return work

    def stands_still(self, part: SegmentedProgram, node: int, classes: Classes) -> bool:
        """Return whether any op of a call stands still on any of these rank classes."""
        if not self.some_dead:
            return False
        key = part.segment(node), classes
        if key not in self._still:
            infos = [self.info(op) for op in {op.number: op for op in part.block(node)}.values()]
            self._still[key] = any(info.works[info.group_of[cls]].stands_still for info in infos for cls in classes)
        return self._still[key]

    def _group(self, pattern: str) -> tuple[list[int], tuple[Classes, ...]]:
        """Return the group of every rank class of a pattern, and the members of every group."""
        known = self._groups.get(pattern)
        if known is None:
            folding = self.pricing.folding
            members = tuple(tuple(self.first + cls for cls in sorted(each)) for each in folding.members(pattern))
            known = self._groups[pattern] = [-1] * self.first + folding.activity_of(pattern).tolist(), members
        return known

    def inner(self, part: SegmentedProgram, node: int) -> InnerCall:
        """Return the call that a node stands for, op by op."""
        block, number = part.block(node), part.segment(node)
        known = self._inner.get(number)
        if known is None:
            role = Role(part.role.name, (replace(part.program.calls[node], ops=block),), part.role.at)
            segmented = SegmentedProgram.of_ops(self.pricing.schedule, role)
            known = self._inner[number] = InnerCall(segmented, [self.info(op) for op in block])
        return known

    def load(self, part: SegmentedProgram, node: int, classes: Classes) -> int:
        """Return the link classes that a call loads on some rank classes, as bits."""
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
        """Return for each rank class of a role the classes that the collectives of a call couple it with, itself
        included."""
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
