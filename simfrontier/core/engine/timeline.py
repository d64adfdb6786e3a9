"""The result of simulating a step: when every op of every role ran on every rank class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfrontier.core.program import SegmentedProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """When ops ran on rank classes, in seconds: when the rank was ready for it, when all of its group were and it
    started, when it ended. Arrays [num_rank_classes, num_ops]."""

    ready: NDArray[np.float64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]

    @property
    def step_s(self) -> float:
        """The end of the last op on the slowest rank."""
        return float(self.end.max(initial=0.0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallTimes:
    """When the ops of one call ran on one rank class, in seconds from some instant; arrays [num_ops of the call]."""

    ready: NDArray[np.float64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleTimeline:
    """A role that was simulated: its program in nodes, the rank classes that run it, and when they ran each node.

    `timeline` has a row for each of `classes` and a column for each node. Of nodes that stand for calls, `by_class`
    and `by_node` say when their ops ran: by (rank class, node) of calls that ran op by op, and by node of those that
    ran as a whole, for several rank classes at once, each with the instant at which the call began.
    """

    segmented: SegmentedProgram
    classes: tuple[int, ...]
    timeline: Timeline
    by_class: Mapping[tuple[int, int], CallTimes]
    by_node: Mapping[int, list[tuple[float, Mapping[int, CallTimes]]]]

    def call_times(self, cls: int, node: int) -> tuple[float, CallTimes]:
        """When a call began on a rank class, and when its ops ran from then on."""
        if (cls, node) in self.by_class:
            return 0.0, self.by_class[cls, node]
        for since, times in self.by_node[node]:
            if cls in times:
                return since, times[cls]
        raise AssertionError(f"rank class {cls} ran no node {node}")
