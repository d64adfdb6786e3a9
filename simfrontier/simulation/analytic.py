"""Fidelity `analytic`: every op takes its time alone, so that a step is the longest path through its ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simfrontier.arrays import Floats
from simfrontier.cost import Cluster
from simfrontier.schedule import Op, Role, Segment, SegmentedProgram
from simfrontier.simulation.longest_path import Node, passed_together
from simfrontier.simulation.step_path import StepPath
from simfrontier.simulation.timeline import CallTimes, RoleTimeline, Timeline
from simfrontier.simulation.waits import group_wait_of

FEW_ROWS = 16  # rank classes; with more, arrays of their times take less than lists of them
AT_ONCE = 1e-12  # rank classes that come to a call closer than this, relative to the time, come to it at once


def without_contention(
    parts: Sequence[SegmentedProgram], classes: Sequence[tuple[int, ...]], cluster: Cluster
) -> tuple[RoleTimeline, ...]:
    """Run one step of all roles, one result for each."""
    if len(parts) == 1 and len(classes[0]) <= FEW_ROWS and not any(parts[0].blocks):
        return (_of_few(parts[0], classes[0], cluster),)
    return _Uncontended(parts, classes, cluster).run()


def _of_few(part: SegmentedProgram, classes: tuple[int, ...], cluster: Cluster) -> RoleTimeline:
    """The only role, op by op on few rank classes, in plain numbers: numpy takes longer for a few of them."""
    took: dict[int, list[float]] = {}
    pattern_of: dict[int, str] = {}
    groups: dict[str, Sequence[list[int]]] = {}
    for op in {op.number: op for op in part.program.ops}.values():
        took[op.number] = alone_s(op, cluster, classes).tolist()
        pattern = pattern_of[op.number] = cluster.of(op).pattern
        if pattern not in groups:
            wait = group_wait_of(cluster.folding.activity_of(pattern)[np.array(classes)])
            groups[pattern] = () if wait is None else wait.groups
    numbers = [op.number for op in part.program.ops]
    times = passed_together(
        part.program.before, [took[number] for number in numbers], [groups[pattern_of[number]] for number in numbers]
    )
    ready, start, end = (np.array(each, float).reshape(len(numbers), len(classes)).T for each in times)
    timeline = Timeline(ready=ready, start=start, end=end)
    return RoleTimeline(segmented=part, classes=classes, timeline=timeline, by_class={}, by_node={})


def alone_s(op: Op, cluster: Cluster, classes: Sequence[int]) -> Floats:
    """What an op takes alone on some rank classes, in seconds."""
    priced = cluster.of(op)
    groups = cluster.folding.activity_of(priced.pattern)[np.array(classes)]
    return np.array([priced.works[group].alone_s for group in groups.tolist()])


class _Uncontended(StepPath):
    """Times are [num_rows]. A call is run op by op once for rank classes that come to it at once, and for others each
    time."""

    def __init__(self, parts: Sequence[SegmentedProgram], classes: Sequence[tuple[int, ...]], cluster: Cluster) -> None:
        super().__init__(parts, classes, cluster)
        self.classes = classes
        self.took: dict[tuple[int, int], Floats] = {}
        self.calls: dict[tuple[int, Segment, tuple[int, ...]], _Uncontended] = {}
        self.alone: dict[tuple[int, Segment, tuple[int, ...]], Mapping[int, CallTimes]] = {}
        self.by_class: list[dict[tuple[int, int], CallTimes]] = [{} for _ in parts]
        self.by_node: list[dict[int, list[tuple[float, Mapping[int, CallTimes]]]]] = [{} for _ in parts]

    def run(self) -> tuple[RoleTimeline, ...]:
        """The times of all roles."""
        times = self.times([np.zeros(len(rows)) for rows in self.rows])
        return tuple(
            RoleTimeline(
                segmented=self.parts[role],
                classes=self.classes[role],
                timeline=Timeline(ready=ready, start=start, end=end),
                by_class=self.by_class[role],
                by_node=self.by_node[role],
            )
            for role, (ready, start, end) in enumerate(times)
        )

    def times(self, begin: Sequence[Floats]) -> list[NDArray[np.float64]]:
        """Per role, when its nodes are ready, start and end [3, num_rows, num_nodes], if its rows begin then."""
        by_node = [[begin[0]] * (3 * part.program.num_ops) for part in self.parts]
        for (role, node), ready, start, end in self.ends(begin):
            by_node[role][3 * node : 3 * node + 3] = ready, start, end
        return [np.stack(times, axis=1).reshape(len(times[0]), -1, 3).transpose(2, 0, 1) for times in by_node]

    def end(self, node: Node, start: Floats) -> Floats:
        role, index = node
        if self.parts[role].blocks[index] is not None:
            return self._end_of_call(role, index, start)
        op = self.parts[role].program.ops[index]
        key = role, op.number
        if key not in self.took:
            self.took[key] = alone_s(op, self.cluster, self.classes[role])
        return start + self.took[key]

    # ── calls ──

    def start_of_call(self, role: int, node: int, ready: Floats) -> Floats:
        wait = self.coupled(role, node)
        if wait is None:
            return ready
        last = wait.after(ready)
        return np.where(last + wait.after(-ready) <= AT_ONCE * last, last, ready)

    def _end_of_call(self, role: int, node: int, start: Floats) -> Floats:
        """When a call ends on rank classes that start it then; its times are noted."""
        out = np.empty_like(start)
        for rows in self._coupled_rows(role, node):
            classes = tuple(self.classes[role][row] for row in rows)
            key = role, self.parts[role].segment(node), classes
            begin = start[rows]
            if (begin == begin[0]).all():
                if key not in self.alone:
                    self.alone[key] = self._inside(role, node, classes, np.zeros(len(rows)))
                inside = self.alone[key]
                self.by_node[role].setdefault(node, []).append((float(begin[0]), inside))
                out[rows] = [begin[0] + inside[cls].end.max() for cls in classes]
            else:
                inside = self._inside(role, node, classes, begin)
                self.by_class[role].update({(cls, node): inside[cls] for cls in classes})
                out[rows] = [inside[cls].end.max() for cls in classes]
        return out

    def _coupled_rows(self, role: int, node: int) -> Iterator[NDArray[np.intp]]:
        wait = self.coupled(role, node)
        if wait is None:
            yield from np.arange(len(self.rows[role]))[:, None]
            return
        for number in range(len(wait.first)):
            yield np.flatnonzero(wait.group == number)

    def _inside(self, role: int, node: int, classes: tuple[int, ...], begin: Floats) -> Mapping[int, CallTimes]:
        """When the ops of a call run on rank classes that begin it then."""
        part = self.parts[role]
        key = role, part.segment(node), classes
        if key not in self.calls:
            only = replace(part.program.calls[node], ops=part.block(node))
            one = Role(part.role.name, (only,), part.role.at)
            program = SegmentedProgram.of_ops(self.cluster.schedule, one)
            self.calls[key] = _Uncontended([program], [classes], self.cluster)
        ((ready, start, end),) = self.calls[key].times([begin])
        return {cls: CallTimes(ready=ready[row], start=start[row], end=end[row]) for row, cls in enumerate(classes)}
