"""A role that was simulated in nodes, op by op again: for those who look at one rank."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfrontier.schedule import Compute, ExpandedProgram, Op, Schedule, expand
from simfrontier.simulation.role_timelines import RoleTimeline
from simfrontier.simulation.timeline import CallTimes, Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleView:
    """A role's program and its times, op by op; the timeline has a row for each of the rank classes."""

    program: ExpandedProgram
    timeline: Timeline
    classes: tuple[int, ...]


def is_kernel(ops: Iterable[Op]) -> NDArray[np.bool_]:
    """Per op: local work on the compute lane."""
    return np.array([op.lane == "compute" and isinstance(op, Compute) for op in ops], bool)


def view_of(schedule: Schedule, role_timeline: RoleTimeline) -> RoleView:
    """The role expanded whole, and the times of nodes and of what is inside them."""
    program = expand(schedule, role_timeline.segmented.role)
    shape = len(role_timeline.classes), program.num_ops
    ready, start, end = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    at = 0
    for node, block in enumerate(role_timeline.segmented.blocks):
        count = 1 if block is None else len(block)
        for row, cls in enumerate(role_timeline.classes):
            if block is None:
                times = role_timeline.timeline
                ready[row, at] = times.ready[row, node]
                start[row, at] = times.start[row, node]
                end[row, at] = times.end[row, node]
            else:
                since, inside = role_timeline.call_times(cls, node)
                ready[row, at : at + count] = since + inside.ready
                start[row, at : at + count] = since + inside.start
                end[row, at : at + count] = since + inside.end
        at += count
    timeline = Timeline(ready=ready, start=start, end=end, num_solves=role_timeline.timeline.num_solves)
    return RoleView(program=program, timeline=timeline, classes=role_timeline.classes)


def busy_s(role_timeline: RoleTimeline, cls: int) -> float:
    """Time that a rank class's compute lane is busy with kernels."""
    nodes = role_timeline.segmented
    spent = (
        role_timeline.timeline.end[role_timeline.classes.index(cls)]
        - role_timeline.timeline.start[role_timeline.classes.index(cls)]
    )
    single = is_kernel(nodes.program.ops) & np.array([block is None for block in nodes.blocks], bool)
    total = float(spent[single].sum())
    kernels: dict[int, NDArray[np.bool_]] = {}
    known: dict[CallTimes, float] = {}  # times of one call that many nodes share are one object
    for node, block in enumerate(nodes.blocks):
        if block is not None:
            number = nodes.block_number(node)
            if number not in kernels:
                kernels[number] = is_kernel(block)
            inside = role_timeline.call_times(cls, node)[1]
            if inside not in known:
                known[inside] = float((inside.end - inside.start)[kernels[number]].sum())
            total += known[inside]
    return total
