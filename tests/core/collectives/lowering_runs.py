"""Running lowered collectives on integers: one transfer after the other, and by ranks with messages under way."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfrontier.core.collectives import Lowered, Recipe, Transfer
from simfrontier.core.collectives.algorithms import all_algorithms
from simfrontier.core.program.ir import CollectiveKind

Lines = NDArray[np.int64]
PAIRS: list[tuple[str, CollectiveKind]] = [(each.name, kind) for each in all_algorithms() for kind in each.collectives]
POISON = 10**15  # what lies where nothing was given: it must not come into any result


def recipe(
    algorithm: str, size: int, per_node: int | None = None, channels: int = 1, slices: int = 1, seed: int = 0
) -> Recipe:
    """Channel 0 in the members' order, the others with nodes and members within them shuffled."""
    each, rng = per_node or size, random.Random(seed)
    orders = [tuple(range(size))]
    for _ in range(channels - 1):
        nodes = [list(range(begin, begin + each)) for begin in range(0, size, each)]
        rng.shuffle(nodes)
        for node in nodes:
            rng.shuffle(node)
        orders.append(tuple(member for node in nodes for member in node))
    return Recipe(algorithm=algorithm, orders=tuple(orders), per_node=each, slices=slices)


def recipes(algorithm: str, sizes: Iterable[int]) -> Iterator[Recipe]:
    """Of every size: with every number of members per node where that matters, 1 and 2 channels, 1 and 3 slices."""
    for size in sizes:
        for per_node in [each for each in range(1, size + 1) if size % each == 0]:
            if algorithm in ("tree", "two_level") or per_node == size:
                for channels, slices in ((1, 1), (1, 3), (2, 1), (2, 3)):
                    yield recipe(algorithm, size, per_node, channels, slices, seed=size)


def given(lowered: Lowered, elements: int) -> Lines:
    """[size, elements of a line]: random numbers where the kind says that something is, poison elsewhere."""
    offsets, size, parts = lowered.offsets(elements), lowered.size, lowered.parts
    lines = np.full((size, offsets[-1]), POISON)
    draws = np.random.default_rng(elements).integers(1, 10**6, (size, offsets[lowered.num_message_chunks]))
    for member in range(size):
        mine = slice(0, offsets[lowered.num_message_chunks])
        if lowered.kind == "all_gather":
            mine = slice(offsets[member * parts], offsets[(member + 1) * parts])
        lines[member, mine] = draws[member, mine]
    return lines


def is_right(lowered: Lowered, elements: int, lines: Lines) -> bool:
    """Whether the lines hold what the kind means, by its plain definition on `given`."""
    size, begin = lowered.size, given(lowered, elements)
    whole = lowered.offsets(elements)[lowered.num_message_chunks]
    match lowered.kind:
        case "all_reduce":
            return bool((lines[:, :whole] == begin[:, :whole].sum(axis=0)).all())
        case "all_gather":
            own = begin[:, :whole].reshape(size, size, elements)
            return all((lines[m, :whole] == own[range(size), range(size)].ravel()).all() for m in range(size))
        case "reduce_scatter":
            total = begin[:, :whole].sum(axis=0).reshape(size, elements)
            ends = lines[:, :whole].reshape(size, size, elements)
            return all((ends[m, m] == total[m]).all() for m in range(size))
        case "all_to_all":
            message = begin[:, :whole].reshape(size, size, elements)
            result = lines[:, whole : 2 * whole].reshape(size, size, elements)
            return bool((result == message.transpose(1, 0, 2)).all())


def execute(lowered: Lowered, elements: int, order: Iterable[int] | None = None) -> Lines:
    """The lines after the transfers, one after the other in that order (the list's)."""
    offsets, lines = lowered.offsets(elements), given(lowered, elements)
    for index in range(len(lowered.transfers)) if order is None else order:
        move(lines, offsets, lowered.transfers[index])
    return lines


def move(lines: Lines, offsets: list[int], t: Transfer) -> None:
    source = lines[t.src, offsets[t.chunk] : offsets[t.chunk + t.count]]
    target = lines[t.dst, offsets[t.to] : offsets[t.to + t.count]]
    target[:] = target + source if t.add else source


def any_order(lowered: Lowered, rng: random.Random) -> list[int]:
    """An order drawn from those that `after` allows."""
    waits = [len(before) for before in lowered.after]
    behind: list[list[int]] = [[] for _ in waits]
    for index, before in enumerate(lowered.after):
        for earlier in before:
            behind[earlier].append(index)
    ready, out = [index for index, count in enumerate(waits) if count == 0], []
    while ready:
        at = rng.randrange(len(ready))
        ready[at], ready[-1] = ready[-1], ready[at]
        out.append(ready.pop())
        for later in behind[out[-1]]:
            waits[later] -= 1
            if waits[later] == 0:
                ready.append(later)
    return out


@dataclass
class Ranks:
    """Members that start whatever may start, then wait for their lowest pending receive (the highest: `backwards`).

    A message is read where it comes from only when it is delivered, as late as can be, and messages between the same
    two ranks keep their order. `stuck` says that nothing can happen any more although transfers are left.
    """

    lowered: Lowered
    elements: int
    rng: random.Random
    backwards: bool = False

    def run(self) -> tuple[Lines, bool]:
        transfers, size = self.lowered.transfers, self.lowered.size
        self.lines, self.offsets = given(self.lowered, self.elements), self.lowered.offsets(self.elements)
        self.inbox: dict[int, Lines] = {}
        self.delivered: set[int] = set()
        self.handled: set[int] = set()
        lanes: dict[tuple[int, int], list[int]] = {}
        receives: list[list[int]] = [[] for _ in range(size)]
        for index, t in enumerate(transfers):
            lanes.setdefault((t.src, t.dst), []).append(index)
            if t.src != t.dst:
                receives[t.dst].append(index)
        for waiting in receives:
            waiting.sort(reverse=not self.backwards)  # taken from the end
        while True:
            steps: list[tuple[str, list[int]]] = []
            for (src, dst), lane in lanes.items():
                if lane and self._may_send(lane[0]):
                    steps.append(("copy" if src == dst else "deliver", lane))
            for waiting in receives:
                if waiting and waiting[-1] in self.inbox and self._may_take(waiting[-1]):
                    steps.append(("take", waiting))
            if not steps:
                return self.lines, len(self.handled) < len(transfers)
            self._do(*self.rng.choice(steps))

    def _do(self, verb: str, queue: list[int]) -> None:
        index = queue.pop() if verb == "take" else queue.pop(0)
        t = self.lowered.transfers[index]
        if verb == "deliver":
            self.inbox[index] = self.lines[t.src, self.offsets[t.chunk] : self.offsets[t.chunk + t.count]].copy()
        elif verb == "copy":
            move(self.lines, self.offsets, t)
        else:
            target = self.lines[t.dst, self.offsets[t.to] : self.offsets[t.to + t.count]]
            arrived = self.inbox.pop(index)
            target[:] = target + arrived if t.add else arrived
        if verb != "take":
            self.delivered.add(index)
        if verb != "deliver":
            self.handled.add(index)

    def _may_send(self, index: int) -> bool:
        """What arrived at the sender before it; for a copy within a member all that it waits for."""
        transfers, t = self.lowered.transfers, self.lowered.transfers[index]
        if t.src == t.dst:
            return self._may_take(index)
        return all(i in self.handled for i in self.lowered.after[index] if transfers[i].dst == t.src)

    def _may_take(self, index: int) -> bool:
        """At the receiver: what was written before, and what it has yet to send from there."""
        transfers, t = self.lowered.transfers, self.lowered.transfers[index]
        return all(
            i in (self.handled if transfers[i].dst == t.dst else self.delivered)
            for i in self.lowered.after[index]
            if t.dst in (transfers[i].src, transfers[i].dst)
        )
