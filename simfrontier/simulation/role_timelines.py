"""The result of simulating several roles: each role's nodes and when they ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simfrontier.schedule import SegmentedProgram
from simfrontier.simulation.context import Classes
from simfrontier.simulation.timeline import CallTimes, Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleTimeline:
    """A role that was simulated: its program in nodes, the rank classes that run it, and when they ran each node.

    `timeline` has a row for each of `classes` and a column for each node. Of nodes that stand for calls, `by_class`
    and `by_node` say when their ops ran: by (rank class, node), and by node for several rank classes at once.
    """

    segmented: SegmentedProgram
    classes: Classes
    timeline: Timeline
    by_class: Mapping[tuple[int, int], CallTimes]
    by_node: Mapping[int, list[tuple[float, Mapping[int, CallTimes]]]]

    def call_times(self, cls: int, node: int) -> tuple[float, CallTimes]:
        """When a call began on a rank class, and when its ops ran from then on."""
        if (cls, node) in self.by_class:
            return 0.0, self.by_class[cls, node]
        return next((since, times[cls]) for since, times in self.by_node[node] if cls in times)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleTimelines:
    """A step of all roles; `order` has the nodes by when they last ended, as (role, node) of those that take part: what
    a node waits for stands before it."""

    by_role: tuple[RoleTimeline, ...]
    order: tuple[tuple[tuple[int, int], ...], ...]
