"""The longest path through nodes whose durations are known, on many rows and in many variations at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from simfrontier.base.arrays import Floats

Node = tuple[int, int]  # (role, its number in the role's program)
Passed = tuple[Node, Floats, Floats, Floats]  # a node: when it is ready, when it starts, when it ends


def longest_path(
    before: Sequence[Sequence[Sequence[int]]],
    order: Sequence[tuple[Node, ...]],
    begin: Sequence[Floats],
    start: Callable[[tuple[Node, ...], list[Floats]], list[Floats]],
    end: Callable[[Node, Floats], Floats],
) -> Iterator[Passed]:
    """Yield every node in order. A node is ready when the last of those that it waits for has ended.

    Args:
        before: per role and node, the nodes of the role whose ends it waits for, all before it in `order`.
        order: all nodes, each as the (role, node)s of those that take part in it.
        begin: per role, from when on its rows are ready, in seconds [num_rows, num_variations].
        start: when a node starts on the rows of each role that takes part, which are ready then.
        end: when a node ends that starts then.

    An end is kept for as long as a node waits for it.
    """
    left = [num_waiting(nodes) for nodes in before]
    known: list[dict[int, Floats]] = [{} for _ in before]
    for takers in order:
        ready = []
        for role, node in takers:
            ends, waiting = known[role], left[role]
            out = begin[role]
            for other in before[role][node]:
                other_end = ends[other]
                out = other_end if out is begin[role] else np.maximum(out, other_end)
                waiting[other] -= 1
                if not waiting[other]:
                    del ends[other]
            ready.append(out)
        for each, own, began in zip(takers, ready, start(takers, ready), strict=True):
            ended = end(each, began)
            if left[each[0]][each[1]]:
                known[each[0]][each[1]] = ended
            yield each, own, began, ended


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


def passed(before: Sequence[Sequence[int]], took: Sequence[float]) -> tuple[list[float], list[float]]:
    """The starts and ends of the nodes of one role on one row, in seconds. `before`: the nodes that each waits for, all
    of them before it; `took`: how long each takes."""
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
