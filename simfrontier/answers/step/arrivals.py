"""Waiting times of ranks for each other in collectives and exchanges: rank classes that were ready early wait for the
rank class that is ready last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from simfrontier.answers.step.critical import level_of
from simfrontier.answers.step.exposed_time import op_words
from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.engine import SimulatedStep
from simfrontier.core.program import Compute, Op

_LEAST = 1e-12  # of a step: times closer than this are equal
MOST_NAMES = 3  # of the calls of a pair


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitPair:
    """Waiting of the ranks of one class (`waiting`) for the ranks of another class (`late`): seconds per rank over all
    calls, the part of them in which the rank ran no kernel (`exposed_s`), the number of calls, and their names, the
    longest waits first.
    """

    waiting: int
    late: int
    seconds: float
    exposed_s: float
    calls: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WhoWaited:
    """The waits of a step of `step_s` seconds for ranks that arrive last, by pairs of rank classes, the largest sum
    over ranks first. If several classes arrive last together, the wait is attributed to the class with the longest
    kernel time, then to the lowest class.

    A wait lasts from when a rank is ready for a call until the last rank of its group is ready. Concurrent waits on
    several lanes are all counted.

    waited_s   [num_rank_classes] seconds that a rank of each class waited: the sum over its pairs
    kernel_s   [num_rank_classes] seconds of kernels of a rank of each class
    rank_class [num_ranks] class of each rank
    role_of    [num_rank_classes] the role that each class executes
    """

    step_s: float
    pairs: tuple[WaitPair, ...]
    waited_s: Floats
    kernel_s: Floats
    rank_class: Ints
    role_of: Ints

    def ranks(self, cls: int) -> Ints:
        """Return the ranks of a rank class."""
        return np.flatnonzero(self.rank_class == cls)


def who_waited(step: SimulatedStep) -> WhoWaited:
    """Return which ranks waited for which others in a step, with one or several roles."""
    count = step.pricing.folding.num_rank_classes
    kernels = _Kernels(step)
    least = _LEAST * step.step_s
    sums: defaultdict[tuple[str, int, int], Floats] = defaultdict(lambda: np.zeros(3))
    for words, pattern, classes, ready in _calls(step):
        group = step.pricing.folding.activity_of(pattern)[classes].astype(np.int64)
        order = np.lexsort((classes, -kernels.total_s[classes], group))
        group, own, times = group[order], classes[order], ready[order]
        first = np.flatnonzero(np.diff(group, prepend=-1))
        of_row = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(group))))
        last = np.maximum.reduceat(times, first, axis=0)
        is_late = times >= last[of_row] - least
        rows = np.where(is_late, np.arange(len(group))[:, None], len(group))
        late = np.minimum.reduceat(rows, first, axis=0)[of_row]
        waits = ~is_late
        if not waits.any():
            continue
        waiting, which = np.nonzero(waits)
        begin, end = times[waiting, which], last[of_row[waiting], which]
        exposed = (end - begin) - kernels.between(own[waiting], begin, end)
        code = own[waiting] * count + own[late[waiting, which]]
        codes, place = np.unique(code, return_inverse=True)
        found = np.stack([np.bincount(place, end - begin), np.bincount(place, exposed), np.bincount(place)], axis=1)
        for each, mine in zip(codes.tolist(), found, strict=True):
            sums[words, *divmod(each, count)] += mine
    pairs = _pairs(sums)
    waited = np.zeros(count)
    np.add.at(waited, [pair.waiting for pair in pairs], [pair.seconds for pair in pairs])
    ranks = step.pricing.folding.rank_count
    return WhoWaited(
        step_s=step.step_s,
        pairs=tuple(sorted(pairs, key=lambda pair: (-pair.seconds * ranks[pair.waiting], pair.waiting, pair.late))),
        waited_s=waited,
        kernel_s=kernels.total_s,
        rank_class=step.pricing.folding.rank_class.astype(np.int64),
        role_of=step.pricing.role_of.astype(np.int64),
    )


def _calls(step: SimulatedStep) -> Iterator[tuple[str, str, Ints, Floats]]:
    """Yield all collective calls and exchanges, grouped by kind: their name, their pattern, the participating rank
    classes, and the times at which these were ready for each call [num_classes, num_calls].
    """
    pricing, is_shared = step.pricing, step.pricing.role_assignment.is_shared
    for number in range(len(step.roles)):
        view = step.view(step.roles[number].classes[0])
        mine: dict[tuple[str, str], list[int]] = {}
        known: dict[int, tuple[str, str] | None] = {}
        for index, op in enumerate(view.ops):
            if op.number not in known:
                alone = isinstance(op, Compute) or is_shared(op)
                known[op.number] = None if alone else (_words(op, step), pricing.of(op).pattern)
            if (key := known[op.number]) is not None:
                mine.setdefault(key, []).append(index)
        for (words, pattern), indices in mine.items():
            yield words, pattern, np.array(view.classes), view.timeline.ready[:, indices]
    if len(step.roles) > 1:
        yield from _shared(step)


def _shared(step: SimulatedStep) -> Iterator[tuple[str, str, Ints, Floats]]:
    """Yield the same as `_calls`, for calls that span several roles."""
    together: dict[tuple[str, str, tuple[int, ...]], list[list[int]]] = {}
    for takers in step.nodes.shared.values():
        roles = tuple(sorted(takers))
        op = step.roles[roles[0]].segmented.program.ops[takers[roles[0]]]
        key = _words(op, step), step.pricing.of(op).pattern, roles
        together.setdefault(key, []).append([takers[role] for role in roles])
    for (words, pattern, roles), places in together.items():
        columns = np.array(places).T
        ready = [step.roles[role].timeline.ready[:, columns[at]] for at, role in enumerate(roles)]
        classes = np.concatenate([np.array(step.roles[role].classes) for role in roles])
        yield words, pattern, classes, np.concatenate(ready)


def _words(op: Op, step: SimulatedStep) -> str:
    return op_words(op.kind, *level_of(op, step))


class _Kernels:
    """Times of the kernels of each rank class: their total, and the part of it between two instants."""

    def __init__(self, step: SimulatedStep) -> None:
        count = step.pricing.folding.num_rank_classes
        self.total_s = np.zeros(count)
        self.edges: list[Floats] = [np.zeros(1)] * count
        self.so_far: list[Floats] = [np.zeros(1)] * count
        for role in step.roles:
            view = step.view(role.classes[0])
            runs = [index for index, op in enumerate(view.ops) if isinstance(op, Compute) and op.lane == "compute"]
            for row, cls in enumerate(view.classes):
                start, end = view.timeline.start[row, runs], view.timeline.end[row, runs]
                lasts = np.repeat(np.cumsum(end - start), 2)
                lasts[0::2] -= end - start
                self.edges[cls] = np.concatenate([[0.0], np.stack([start, end], axis=1).ravel()])
                self.so_far[cls] = np.concatenate([[0.0], lasts])
                self.total_s[cls] = self.so_far[cls][-1]

    def between(self, classes: Ints, begin: Floats, end: Floats) -> Floats:
        """Return seconds of kernels of each of some rank classes between two instants."""
        out = np.empty(len(classes))
        for cls in np.unique(classes).tolist():
            at = classes == cls
            ends = (np.interp(when[at], self.edges[cls], self.so_far[cls]) for when in (end, begin))
            out[at] = next(ends) - next(ends)
        return out


def _pairs(sums: Mapping[tuple[str, int, int], Floats]) -> list[WaitPair]:
    """Return the pairs of waits by call name: seconds, seconds without a running kernel, and number of calls."""
    together: dict[tuple[int, int], list[tuple[str, Floats]]] = {}
    for (words, waiting, late), mine in sums.items():
        together.setdefault((waiting, late), []).append((words, mine))
    out = []
    for (waiting, late), each in together.items():
        ordered = sorted(each, key=lambda one: (-one[1][0], one[0]))
        seconds, exposed_s, calls = sum(mine for _, mine in each).tolist()  # type: ignore[union-attr]
        names = tuple(words for words, _ in ordered[:MOST_NAMES])
        out.append(
            WaitPair(waiting=waiting, late=late, seconds=seconds, exposed_s=exposed_s, calls=round(calls), names=names)
        )
    return out
