"""Timelines: the result of simulating a step, with the times of every op of every role on every rank class; both by
program nodes and op by op."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.cost import Pricing
from simfrontier.core.program import (
    PAUSE,
    Call,
    Compute,
    ExpandedProgram,
    Lifetimes,
    Op,
    Segment,
    SegmentedProgram,
    lifetimes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Times of ops on rank classes in seconds, arrays [num_rank_classes, num_ops]. `ready`: time at which the rank was
    ready for the op; `start`: time at which all ranks of the op's group were ready and the op started; `end`: time at
    which the op ended."""

    ready: Floats
    start: Floats
    end: Floats

    @property
    def step_s(self) -> float:
        """End of the last op on the slowest rank, in seconds."""
        return float(self.end.max(initial=0.0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallTimes:
    """Times of the ops of one program call (such as one layer's forward) on one rank class, in seconds relative to a
    reference instant; arrays [num_ops of the call]."""

    ready: Floats
    start: Floats
    end: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleTimeline:
    """A simulated role: its program in nodes, the rank classes that run it, and the times of each program node.

    `timeline` has a row for each of `classes` and a column for each program node. `by_class` and `by_node` hold the
    times of the ops inside program calls that one node represents: `by_class` by (rank class, node) for calls that ran
    op by op, each with its reference instant; `by_node` by node for calls that ran as a whole on several rank classes
    at once, each with the instant at which the call began.
    """

    segmented: SegmentedProgram
    classes: tuple[int, ...]
    timeline: Timeline
    by_class: Mapping[tuple[int, int], tuple[float, CallTimes]]
    by_node: Mapping[int, list[tuple[float, Mapping[int, CallTimes]]]]

    def call_times(self, cls: int, node: int) -> tuple[float, CallTimes]:
        """Return the reference instant of a program call on a rank class, and the times of the call's ops relative to
        it."""
        if (cls, node) in self.by_class:
            return self.by_class[cls, node]
        for since, times in self.by_node[node]:
            if cls in times:
                return since, times[cls]
        raise AssertionError(f"rank class {cls} ran no node {node}")


def classes_of(pricing: Pricing, num_roles: int) -> list[tuple[int, ...]]:
    """Return the rank classes of each role."""
    return [tuple(np.flatnonzero(pricing.role_of == number).tolist()) for number in range(num_roles)]


@dataclass(frozen=True, kw_only=True, eq=False)
class RoleView:
    """Program and times of a role, op by op; the timeline has a row for each of `classes`."""

    segmented: SegmentedProgram
    timeline: Timeline
    classes: tuple[int, ...]

    @cached_property
    def ops(self) -> list[Op]:
        """Ops of the program in issue order."""
        return [op for call in self.segmented.role.calls for op in call.ops]

    @cached_property
    def numbers(self) -> Ints:
        """Number of each op in `Schedule.ops` [num_ops]."""
        blocks = {
            call.block: np.array([op.number for op in call.ops], int) for call in self.segmented.role.first_calls()
        }
        return np.concatenate([blocks[call.block] for call in self.segmented.role.calls])

    @cached_property
    def calls(self) -> list[Call]:
        """Program call to which each op belongs."""
        return [call for call in self.segmented.role.calls for _ in call.ops]

    @property
    def program(self) -> ExpandedProgram:
        """Program of the role, with the dependencies of its ops."""
        return self.segmented.expanded

    @cached_property
    def lifetimes(self) -> Lifetimes:
        """Lifetimes of all tensor instances that the role's ops use."""
        return lifetimes(self.segmented.schedule, self.segmented.role)


def is_kernel(ops: Iterable[Op]) -> NDArray[np.bool_]:
    """Return for each op whether it is local work on the compute lane (pauses excluded) [num_ops]."""
    return np.array([op.lane == "compute" and isinstance(op, Compute) and op.kind != PAUSE.name for op in ops], bool)


def view_of(role_timeline: RoleTimeline) -> RoleView:
    """Return the role op by op: the times of single ops, and of the ops inside program calls."""
    nodes, times = role_timeline.segmented, role_timeline.timeline
    if nodes.num_ops == nodes.program.num_ops:  # every op is a node
        return RoleView(segmented=nodes, timeline=times, classes=role_timeline.classes)
    counts = np.array([1 if block is None else len(block) for block in nodes.blocks])
    rows = [_times_of(role_timeline, row, counts) for row in range(len(role_timeline.classes))]
    ready, start, end = (np.stack([each[which] for each in rows]) for which in range(3))
    timeline = Timeline(ready=ready, start=start, end=end)
    return RoleView(segmented=nodes, timeline=timeline, classes=role_timeline.classes)


_NOTHING = np.zeros(1)
_AT_ONCE = CallTimes(ready=_NOTHING, start=_NOTHING, end=_NOTHING)


def _times_of(role_timeline: RoleTimeline, row: int, counts: Ints) -> tuple[Floats, Floats, Floats]:
    """Return the times at which a rank class was ready for every op, started it and ended it: for an op that is a
    program node, the node's times; for an op inside a program call, the call's reference instant plus the op's times
    relative to that instant."""
    cls, times, blocks = role_timeline.classes[row], role_timeline.timeline, role_timeline.segmented.blocks
    since, inside = times.ready[row].copy(), [_AT_ONCE] * len(blocks)
    for node, block in enumerate(blocks):
        if block is not None:
            since[node], inside[node] = role_timeline.call_times(cls, node)
    is_call = np.array([block is not None for block in blocks])
    start, end = (np.where(is_call, since, each[row]) for each in (times.start, times.end))
    return (
        np.repeat(since, counts) + np.concatenate([each.ready for each in inside]),
        np.repeat(start, counts) + np.concatenate([each.start for each in inside]),
        np.repeat(end, counts) + np.concatenate([each.end for each in inside]),
    )


def busy_s(role_timeline: RoleTimeline) -> Floats:
    """Return the seconds that the compute lane of each of the role's rank classes is busy with kernels
    [num_rank_classes]."""
    nodes, times = role_timeline.segmented, role_timeline.timeline
    single = is_kernel(nodes.program.ops) & np.array([block is None for block in nodes.blocks], bool)
    total: Floats = (times.end - times.start)[:, single].sum(axis=1)
    kernels: dict[Segment, NDArray[np.bool_]] = {}
    known: dict[CallTimes, float] = {}  # times of one call that many nodes share are one object
    for node, block in enumerate(nodes.blocks):
        if block is None:
            continue
        number = nodes.segment(node)
        if number not in kernels:
            kernels[number] = is_kernel(block)
        for row, cls in enumerate(role_timeline.classes):
            inside = role_timeline.call_times(cls, node)[1]
            if inside not in known:
                known[inside] = float((inside.end - inside.start)[kernels[number]].sum())
            total[row] += known[inside]
    return total
