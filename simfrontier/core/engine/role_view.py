"""A role that was simulated in nodes, op by op again: for those who look at one rank."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.engine.timeline import CallTimes, RoleTimeline, Timeline
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


@dataclass(frozen=True, kw_only=True, eq=False)
class RoleView:
    """A role's program and its times, op by op; the timeline has a row for each of the rank classes."""

    segmented: SegmentedProgram
    timeline: Timeline
    classes: tuple[int, ...]

    @cached_property
    def ops(self) -> list[Op]:
        """The ops of the program, without what they wait for."""
        return [op for call in self.segmented.role.calls for op in call.ops]

    @cached_property
    def calls(self) -> list[Call]:
        """The call of each op."""
        return [call for call in self.segmented.role.calls for _ in call.ops]

    @property
    def program(self) -> ExpandedProgram:
        """The ops with what they wait for."""
        return self.segmented.expanded

    @cached_property
    def lifetimes(self) -> Lifetimes:
        """Of all instances that the role touches."""
        nodes = self.segmented
        if nodes.num_ops == nodes.program.num_ops:  # the program with every op is at hand
            return nodes.program.lifetime_arrays
        return lifetimes(nodes.schedule, nodes.role)


def is_kernel(ops: Iterable[Op]) -> NDArray[np.bool_]:
    """Per op: local work on the compute lane."""
    return np.array([op.lane == "compute" and isinstance(op, Compute) and op.kind != PAUSE.name for op in ops], bool)


def view_of(role_timeline: RoleTimeline) -> RoleView:
    """The role with every op, and the times of nodes and of what is inside them."""
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
    """When a rank class was ready for every op, started it and ended it: when its node did, or its node began, and how
    long after that."""
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


def busy_s(role_timeline: RoleTimeline) -> NDArray[np.float64]:
    """Time that the compute lane of each of the role's rank classes is busy with kernels [num_rank_classes]."""
    nodes, times = role_timeline.segmented, role_timeline.timeline
    single = is_kernel(nodes.program.ops) & np.array([block is None for block in nodes.blocks], bool)
    total: NDArray[np.float64] = (times.end - times.start)[:, single].sum(axis=1)
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
