"""A role that was simulated in nodes, op by op again: for those who look at one rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simfrontier.schedule import Compute, ExpandedProgram, Op, Segment
from simfrontier.simulation.timeline import CallTimes, RoleTimeline, Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleView:
    """A role's program and its times, op by op; the timeline has a row for each of the rank classes."""

    program: ExpandedProgram
    timeline: Timeline
    classes: tuple[int, ...]


def is_kernel(ops: Iterable[Op]) -> NDArray[np.bool_]:
    """Per op: local work on the compute lane."""
    return np.array([op.lane == "compute" and isinstance(op, Compute) for op in ops], bool)


@dataclass(slots=True)
class RoleViews:
    """The roles of a step, op by op, each made when it is asked for."""

    roles: Sequence[RoleTimeline]
    _known: dict[int, RoleView] = field(default_factory=dict)

    def of(self, role: int) -> RoleView:
        """The role of that number."""
        if role not in self._known:
            self._known[role] = view_of(self.roles[role])
        return self._known[role]


def view_of(role_timeline: RoleTimeline) -> RoleView:
    """The role with every op, and the times of nodes and of what is inside them."""
    nodes, times = role_timeline.segmented, role_timeline.timeline
    if nodes.num_ops == nodes.program.num_ops:  # every op is a node
        return RoleView(program=nodes.program, timeline=times, classes=role_timeline.classes)
    program = nodes.expanded
    shape = len(role_timeline.classes), program.num_ops
    ready, start, end = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    at = 0
    for node, block in enumerate(nodes.blocks):
        count = 1 if block is None else len(block)
        for row, cls in enumerate(role_timeline.classes):
            if block is None:
                ready[row, at] = times.ready[row, node]
                start[row, at] = times.start[row, node]
                end[row, at] = times.end[row, node]
            else:
                since, inside = role_timeline.call_times(cls, node)
                ready[row, at : at + count] = since + inside.ready
                start[row, at : at + count] = since + inside.start
                end[row, at : at + count] = since + inside.end
        at += count
    timeline = Timeline(ready=ready, start=start, end=end)
    return RoleView(program=program, timeline=timeline, classes=role_timeline.classes)


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
