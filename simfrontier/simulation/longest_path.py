"""The longest path through nodes whose durations are known, whatever runs beside them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from operator import add

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


def passed_together(
    before: Sequence[Sequence[int]], took: Sequence[Sequence[float]], groups: Sequence[Sequence[Sequence[int]]]
) -> tuple[list[list[float]], list[list[float]], list[list[float]]]:
    """When each node of one role is ready, starts and ends on a few rows, in seconds, each [num_nodes][num_rows].
    `took`: how long each takes there; `groups`: of each, the rows that start when the last of them is ready."""
    ready, start, end = list[list[float]](), list[list[float]](), list[list[float]]()
    for others, own, together in zip(before, took, groups, strict=True):
        begin = end[others[0]] if others else [0.0] * len(own)
        for other in others[1:]:
            begin = list(map(max, begin, end[other]))
        ready.append(begin)
        if together:
            begin = list(begin)
            for group in together:
                last = max([begin[row] for row in group])
                for row in group:
                    begin[row] = last
        start.append(begin)
        end.append(list(map(add, begin, own)))
    return ready, start, end


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
        left = [num_waiting(nodes) for nodes in self.before]
        known: list[dict[int, Floats]] = [{} for _ in self.before]
        for takers in self.order:
            ready = []
            for role, node in takers:
                ends, waiting = known[role], left[role]
                out = begin[role]
                for other in self.before[role][node]:
                    end = ends[other]
                    out = end if out is begin[role] else np.maximum(out, end)
                    waiting[other] -= 1
                    if not waiting[other]:
                        del ends[other]
                ready.append(out)
            for each, own, start in zip(takers, ready, self.start(takers, ready), strict=True):
                end = self.end(each, start)
                if left[each[0]][each[1]]:
                    known[each[0]][each[1]] = end
                yield each, own, start, end


def num_waiting(before: Sequence[Sequence[int]]) -> list[int]:
    """How many nodes wait for each."""
    out = [0] * len(before)
    for others in before:
        for other in others:
            out[other] += 1
    return out


def alone(num_nodes: int) -> list[tuple[Node, ...]]:
    """The order of the nodes of one role by itself."""
    return [((0, node),) for node in range(num_nodes)]
