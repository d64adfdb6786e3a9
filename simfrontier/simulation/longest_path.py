"""The longest path through nodes whose durations are known, whatever runs beside them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from simfrontier.arrays import Floats

Node = tuple[int, int]  # (role, its number in the role's program)


def passed(before: Sequence[Sequence[int]], took: Sequence[float]) -> tuple[list[float], list[float]]:
    """When each node of one role starts and ends, in seconds, if all begin as soon as what they wait for has ended.
    `before`: the nodes that each waits for, all of them before it; `took`: how long each takes."""
    start: list[float] = []
    end: list[float] = []
    for others, own in zip(before, took, strict=True):
        begin = 0.0
        for other in others:
            if end[other] > begin:
                begin = end[other]
        start.append(begin)
        end.append(begin + own)
    return start, end


class LongestPath(ABC):
    """The same for nodes of several roles, on many rows and samples at once. A node is ready when the last of those
    that it waits for has ended; whoever inherits says what more it waits for, and how long it takes.

    before   per role and node: the nodes of the role whose ends it waits for, all before it in `order`
    order    all nodes, each as the (role, node)s of those that take part in it
    """

    def __init__(self, before: Sequence[Sequence[Sequence[int]]], order: Sequence[tuple[Node, ...]]) -> None:
        self.before, self.order = before, order

    @abstractmethod
    def start(self, takers: tuple[Node, ...], ready: list[Floats]) -> list[Floats]:
        """When a node starts on the rows of each role that takes part, which are ready then."""

    @abstractmethod
    def end(self, node: Node, start: Floats) -> Floats:
        """When it ends there."""

    def ends(self, begin: Sequence[Floats]) -> Iterator[tuple[Node, Floats, Floats, Floats]]:
        """(node, when it is ready, its start, its end) in order; `begin`: per role, from when on its rows are ready, in
        seconds [num_rows, ...]. An end is kept for as long as a node waits for it."""
        left = [Counter(other for nodes in before for other in nodes) for before in self.before]
        known: dict[Node, Floats] = {}

        def ready_of(role: int, node: int) -> Floats:
            out = begin[role]
            for other in self.before[role][node]:
                end = known[role, other]
                out = end if out is begin[role] else np.maximum(out, end)
                left[role][other] -= 1
                if not left[role][other]:
                    del known[role, other]
            return out

        for takers in self.order:
            ready = [ready_of(*each) for each in takers]
            for each, own, start in zip(takers, ready, self.start(takers, ready), strict=True):
                end = self.end(each, start)
                if left[each[0]][each[1]]:
                    known[each] = end
                yield each, own, start, end


def alone(num_nodes: int) -> list[tuple[Node, ...]]:
    """The order of the nodes of one role by itself."""
    return [((0, node),) for node in range(num_nodes)]
