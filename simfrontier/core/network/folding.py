"""Folding: classes of equivalent ranks, links and activities, and the loads of activity classes on link classes.

If the partition into classes is equitable, the max-min rates of the quotient equal those of the full problem, class by
class, so that only one rank of each class needs to be simulated (as for linear programs in Grohe, Kersting, Mladenov
and Selman, Dimension Reduction via Colour Refinement, ESA 2014). Ranks are refined together with links and activities,
because activities with equal loads do not necessarily start at equal times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.network.fabric import Fabric, ResourceKind
from simfrontier.core.network.hashes import Hashes, combine, mix, number_hash
from simfrontier.core.network.pattern import Pattern

Classes = NDArray[np.int32]

KINDS = np.array([[ResourceKind.WIRE], [ResourceKind.HBM], [ResourceKind.UNITS]], np.int8)
HBM_SALT, UNITS_SALT = np.uint64(0x48424D), np.uint64(0x554E4954)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadColumn:
    """Load of all activities of one class on the representative link of each link class, per unit of activity rate.

    rows              indices of the link classes with load, ascending
    wire, hbm, units  [len(rows)] load, in the array of the kind of the link; 0 in the two other arrays
    """

    rows: Ints
    wire: Floats
    hbm: Floats
    units: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Quotient:
    """Quotient of one pattern: loads sorted by (activity class, link class), and the rank classes that take part in
    each activity class."""

    count: Ints
    cls: Ints
    row: Ints
    load: Floats
    of_rank: Classes
    members: tuple[frozenset[int], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Folding:
    """Classes of ranks, links and activities, each numbered in the order of its lowest rank, link or activity, and the
    quotient of every pattern.

    rank_class           [num_ranks] class of each rank
    rank_count, representative  [num_rank_classes] number of ranks, and the lowest rank, of each class
    activity_class       pattern key -> class of each activity [num activities]
    link_class           [num_links] class of each link
    capacity, link_representative  [num_link_classes] capacity of a link, and the lowest link, of each class
    """

    rank_class: Classes
    num_rank_classes: int
    rank_count: Ints
    representative: Ints
    activity_class: Mapping[str, Classes]
    link_class: Classes
    capacity: Floats
    link_representative: Ints
    _kind: NDArray[np.int8]
    _quotients: Mapping[str, _Quotient]

    @property
    def num_link_classes(self) -> int:
        """Number of link classes, including those that no pattern uses."""
        return len(self.capacity)

    def column(self, key: str, cls: int) -> LoadColumn:
        """Return the loads of one activity class on all link classes, per unit of activity rate; at rate 1 the busiest
        wire of an activity carries 1 byte/s of payload."""
        quotient = self._quotients[key]
        low, high = np.searchsorted(quotient.cls, (cls, cls + 1))
        rows, load = quotient.row[low:high], quotient.load[low:high]
        wire, hbm, units = (self._kind[rows] == KINDS) * load
        return LoadColumn(rows=rows, wire=wire, hbm=hbm, units=units)

    def activity_of(self, key: str) -> Classes:
        """Return for each rank class the class of the activity in which its ranks take part [num_rank_classes]."""
        return self._quotients[key].of_rank

    def members(self, key: str) -> tuple[frozenset[int], ...]:
        """Return for each activity class the rank classes that take part in its activities."""
        return self._quotients[key].members

    def count(self, key: str) -> Ints:
        """Return the number of activities in each class [num activity classes]."""
        return self._quotients[key].count


def fold(
    fabric: Fabric,
    patterns: Mapping[str, Pattern],
    rank_colour: NDArray[np.integer] | None = None,
    exact: bool = False,
) -> Folding:
    """Fold ranks, links and activities into classes, which are common to all patterns that a simulation may use.

    rank_colour: [num_ranks] further distinctions between ranks (role, jitter ...); the speed of ranks is distinguished
    in any case. exact: every rank, link and activity is a class of its own.
    """
    return fold_states([(fabric, patterns)], rank_colour, exact)[0]


def fold_states(
    states: Sequence[tuple[Fabric, Mapping[str, Pattern]]],
    rank_colour: NDArray[np.integer] | None = None,
    exact: bool = False,
    link_colour: NDArray[np.integer] | None = None,
) -> tuple[Folding, ...]:
    """Fold a fabric that passes through several states, with the loads of the same patterns in each state; return one
    folding per state. Ranks, links or activities of one class are equivalent in all states, so the class numbers are
    the same in every folding. link_colour: [num_links] further distinctions between links."""
    fabric, patterns = states[0]
    assert rank_colour is None or rank_colour.shape == (fabric.num_ranks,)
    if exact:
        ranks, representative = _each(fabric.num_ranks)
        links, link_representative = _each(fabric.num_links)
        numbered = [_each(pattern.num) for pattern in patterns.values()]
    else:
        own = _of_all([each.rank_hashes() for each, _ in states])
        if rank_colour is not None:
            own = combine(rank_colour.astype(np.uint64), own)
        loads = dict.fromkeys(pattern for _, each in states for pattern in each.values())
        links_apart = _of_all([each.link_hashes() for each, _ in states])
        if link_colour is not None:
            links_apart = combine(link_colour.astype(np.uint64), links_apart)
        colours = refine(list(loads), links_apart, own)
        colour_of = dict(zip(loads, colours.activities, strict=True))
        link_colours = colours.links
        link_colours[fabric.hbm_of] = mix(colours.ranks ^ HBM_SALT)
        link_colours[fabric.units_of] = mix(colours.ranks ^ UNITS_SALT)
        ranks, representative = number(colours.ranks)
        links, link_representative = number(link_colours)
        numbered = [number(_of_all([colour_of[each[key]] for _, each in states])) for key in patterns]
    classes = dict(zip(patterns, numbered, strict=True))
    quotients: dict[Pattern, _Quotient] = {}
    for _, each in states:
        for key, pattern in each.items():
            if pattern not in quotients:
                quotients[pattern] = _quotient(
                    pattern, *classes[key], links, link_representative, ranks, representative
                )
    return tuple(
        Folding(
            rank_class=ranks,
            num_rank_classes=len(representative),
            rank_count=np.bincount(ranks),
            representative=representative,
            activity_class={key: own for key, (own, _) in classes.items()},
            link_class=links,
            capacity=state.capacity[link_representative],
            link_representative=link_representative,
            _kind=state.kind[link_representative],
            _quotients={key: quotients[pattern] for key, pattern in each.items()},
        )
        for state, each in states
    )


def _of_all(hashes: Sequence[Hashes]) -> Hashes:
    """Return element-wise combined hashes: two elements get equal hashes only if all of the given hashes are equal for
    them."""
    return hashes[0] if len(hashes) == 1 else combine(*hashes)


def _each(count: int) -> tuple[Classes, Ints]:
    return np.arange(count, dtype=np.int32), np.arange(count, dtype=np.int64)


def _quotient(
    pattern: Pattern,
    classes: Classes,
    first: Ints,
    links: Classes,
    link_representative: Ints,
    ranks: Classes,
    representative: Ints,
) -> _Quotient:
    """Return the quotient of a pattern: its loads on the representative link of each link class, summed over the
    activities of each activity class and divided by the `peak` of that class."""
    num_rows, num_ranks = len(link_representative), len(representative)
    hit = np.flatnonzero(link_representative[links[pattern.link]] == pattern.link)
    cell = classes[pattern.act[hit]].astype(np.int64) * num_rows + links[pattern.link[hit]]
    cells, which = np.unique(cell, return_inverse=True)
    cls, row = np.divmod(cells, num_rows)
    own = classes[pattern.group_of]  # activity class of every rank
    pairs = np.unique(own.astype(np.int64) * num_ranks + ranks)
    cuts = np.searchsorted(pairs, np.arange(1, len(first)) * num_ranks)
    return _Quotient(
        count=np.bincount(classes),
        cls=cls,
        row=row,
        load=np.bincount(which, pattern.weight[hit]) / pattern.peak[first][cls],
        of_rank=own[representative],
        members=tuple(frozenset(part.tolist()) for part in np.split(pairs % num_ranks, cuts)),
    )


# ── colour refinement, by 64-bit hashes of multisets ──


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Colours:
    """A hash per link, per rank and per activity of each pattern; equal hashes mean the same class."""

    links: Hashes
    ranks: Hashes
    activities: tuple[Hashes, ...]

    def num_distinct(self) -> tuple[int, ...]:
        """Return the numbers of link classes, of rank classes, and of activity classes of each pattern."""
        return tuple(_count(colours) for colours in (self.links, self.ranks, *self.activities))


def refine(patterns: Sequence[Pattern], links: Hashes, ranks: Hashes) -> Colours:
    """Return the coarsest equitable partition that refines the given colours and is equitable for each pattern.

    links: initial colours of all links. Only the colours of wires and pools are refined: a memory or a group of compute
    units belongs to one rank, so the initial colours `ranks` must include their properties. Two activities are
    equivalent if their multisets of (link colour, weight) and of rank colours are equal; two ranks are equivalent if
    their activities are equivalent in every pattern; two links, if their multisets of (activity colour, weight) are
    equal.

    A multiset is hashed as the sum modulo 2^64 of r(colour) * s(weight), where r and s are 64-bit hashes. Every round
    can only split classes, so the iteration has converged when the number of classes no longer grows.
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
    """Return the class of each element, numbered in the order of first occurrence, and the index of the first element
    of each class."""
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
