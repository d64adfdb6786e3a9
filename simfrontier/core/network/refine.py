"""Colour refinement of ranks, links and activities by 64-bit multiset hashes, for all patterns at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Ints
from simfrontier.core.network.hashes import Hashes, combine, mix, number_hash
from simfrontier.core.network.pattern import Pattern


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Colours:
    """A hash per link, per rank and per activity of each pattern; equal hashes mean the same class."""

    links: Hashes
    ranks: Hashes
    activities: tuple[Hashes, ...]

    def num_distinct(self) -> tuple[int, ...]:
        """Number of classes of links, of ranks and of the activities of each pattern."""
        return tuple(_count(colours) for colours in (self.links, self.ranks, *self.activities))


def refine(patterns: Sequence[Pattern], links: Hashes, ranks: Hashes) -> Colours:
    """The coarsest equitable partition below the given colours, for each pattern separately.

    links: initial colours of all links, of which only the wires and pools are refined: a rank and its memory and
    compute units have each other alone, so `ranks` must hold what tells those apart, and stands for them.
    Two activities are alike if their multisets of (link colour, weight) and of rank colours are; two ranks, if their
    activities are, pattern by pattern; two links, if their multisets of (activity colour, weight) are.

    A multiset is hashed as the wrap-around sum of r(colour) * s(weight), r and s random words; the last stable
    partition is found by counting, as every round only splits.
    """
    salts = mix(np.arange(len(patterns), dtype=np.uint64))
    wires = [(p.act[: p.num_wire_loads], p.link[: p.num_wire_loads]) for p in patterns]
    factors = [number_hash(p.weight[: p.num_wire_loads]) for p in patterns]
    colours = Colours(
        links=mix(links), ranks=mix(ranks), activities=tuple(np.zeros(p.num, np.uint64) for p in patterns)
    )
    counts = colours.num_distinct()
    while True:
        link_words, rank_words = mix(colours.links), mix(colours.ranks)
        activities, rank_sum = [], np.zeros(len(ranks), np.uint64)
        link_sum = np.zeros(len(links), np.uint64)
        parts = zip(patterns, wires, factors, salts, colours.activities, strict=True)
        for pattern, (act, link), factor, salt, old in parts:
            traffic = _sums(act, link_words[link] * factor, pattern.num)
            members = _sums(pattern.group_of, rank_words, pattern.num)
            new = combine(old, traffic, members)
            words = mix(new ^ salt)
            rank_sum += words[pattern.group_of]
            np.add.at(link_sum, link, words[act] * factor)
            activities.append(new)
        colours = Colours(
            links=combine(colours.links, link_sum),
            ranks=combine(colours.ranks, rank_sum),
            activities=tuple(activities),
        )
        before, counts = counts, colours.num_distinct()
        if counts == before:
            return colours


def number(colours: Hashes) -> tuple[NDArray[np.int32], Ints]:
    """Class ids in the order of first occurrence, and the first member of each class."""
    _, first, which = np.unique(colours, return_index=True, return_inverse=True)
    order = np.argsort(first)
    ids = np.empty(len(order), np.int32)
    ids[order] = np.arange(len(order), dtype=np.int32)
    return ids[which], first[order].astype(np.int64)


def _sums(index: NDArray[np.integer], words: Hashes, size: int) -> Hashes:
    if size == 1:
        return np.add.reduce(words, keepdims=True, dtype=np.uint64)
    out = np.zeros(size, np.uint64)
    np.add.at(out, index, words)
    return out


def _count(colours: Hashes) -> int:
    ordered = np.sort(colours)
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
