"""Two-level algorithm, as in PCCL (arXiv 2504.18658): one call between nodes, among the ranks with the same position on
each node, and one call inside each node.

This module has the times and loads of both calls; their transfers are in `two_level_transfers`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfrontier.core.collectives.algorithms.base import Algorithm, CallsAlone
from simfrontier.core.collectives.algorithms.direct import MESSAGES
from simfrontier.core.collectives.algorithms.halving import num_rounds, round_loads
from simfrontier.core.collectives.algorithms.ring import RINGS, ring_loads
from simfrontier.core.collectives.algorithms.two_level_transfers import two_level
from simfrontier.core.collectives.laws import GroupShape, LevelRates
from simfrontier.core.network import Fabric, Pattern, equal_parts, finished
from simfrontier.core.program import RING, TWO_LEVEL, CollectiveKind

if TYPE_CHECKING:
    from simfrontier.core.collectives.library import Library, TwoLevel

PAIR = GroupShape(size=2, num_nodes=2, num_packages=2)  # two ranks that exchange in a round
Ranks = NDArray[np.integer]
Wave = tuple[float, Pattern]  # a share of the bytes that a rank sends, and the loads per byte


@dataclass(frozen=True, slots=True, kw_only=True)
class InTwoLevels(Algorithm):
    """Two-level algorithm: two calls of two libraries, one after the other. The file of a two-level library names these
    two libraries as its levels."""

    def loads(
        self, fabric: Fabric, groups: Ranks, library: Library, shares: Mapping[str, float] | None = None
    ) -> Pattern:
        return two_level_pattern(fabric, groups, library, lambda level: shares or _shares_of_rings(level, fabric))

    def seconds_alone(self, calls: CallsAlone, library: Library, kind: CollectiveKind, message_bytes: float) -> float:
        """Return the time of a call, in seconds, at the rates of the calls of both levels, each while nothing else
        runs."""
        known = self.knowing(library, calls)
        return self.seconds_at(known, kind, message_bytes, calls.shape, self.cap_bytes_per_s(known, calls.shape))

    def knowing(self, library: Library, calls: CallsAlone) -> Library:
        """Return the library with the rates of the calls of both levels in these groups; the rates of rings use a
        layout common to all libraries."""
        across, within = calls.split(self.name, level_groups)
        between, inside = levels_of(library)
        if two_level_of(library).between_by == RING:
            rate = across.sent_per_s(RING, between)
        else:
            rate = _between_rate(calls.fabric, across.groups, library, _shares_of_rings(between, calls.fabric))
        return with_rates(library, calls.shape, LevelRates(between=rate, inside=within.sent_per_s(RING, inside)))

    def latency_s(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        """Return the latency of a call, in seconds: its time minus volume / `cap_bytes_per_s`."""
        if kind == "all_reduce":
            halves: tuple[CollectiveKind, ...] = ("reduce_scatter", "all_gather")
            return sum(self.latency_s(library, half, message_bytes, group, bytes_per_s) for half in halves)
        levels, (between, inside) = two_level_of(library), shapes_of(group)
        call, rates = levels.calls[kind], levels.rates[group]
        seconds = call.base_s + message_bytes / call.reorder_bytes_per_s
        if between.size > 1:
            part = message_bytes / inside.size
            if levels.between_by == RING:
                seconds += RINGS.latency_s(call.between, kind, part, between, rates.between)
            else:
                rounds = (between.size - 1).bit_length()
                seconds += rounds * MESSAGES.latency_s(call.between, "all_to_all", part, PAIR, rates.between)
        if inside.size > 1:
            seconds += RINGS.latency_s(levels.library_inside, kind, message_bytes, inside, rates.inside)
        return seconds

    def cap_bytes_per_s(self, library: Library, group: GroupShape) -> float:
        """Return the bytes that a rank sends divided by the time to send them: (n-1)/n / ((k-1)/(k p) / B1 + (p-1)/p /
        B2), with B1 the rate between nodes and B2 the rate inside nodes."""
        rates, (between, inside) = two_level_of(library).rates[group], shapes_of(group)
        between_s = (between.size - 1) / group.size / rates.between
        inside_s = (inside.size - 1) / inside.size / rates.inside
        return (group.size - 1) / group.size / (between_s + inside_s)

    def lacks(self, library: Library, kind: CollectiveKind) -> str:
        if library.two_level is None:
            return "levels"
        halves: tuple[CollectiveKind, ...] = ("reduce_scatter", "all_gather") if kind == "all_reduce" else (kind,)
        missing = [half for half in halves if half not in library.two_level.calls]
        return f"levels of {missing[0]}" if missing else ""


def shapes_of(group: GroupShape) -> tuple[GroupShape, GroupShape]:
    """Return the shape of the groups between nodes and that of the groups inside nodes."""
    k = group.num_nodes
    between = GroupShape(size=k, num_nodes=k, num_packages=k)
    return between, GroupShape(size=group.size // k, num_nodes=1, num_packages=group.num_packages // k)


def level_groups(fabric: Fabric, groups: Ranks) -> tuple[Ranks, Ranks]:
    """Return the groups between nodes, each of the ranks with the same position on each node, and the groups inside
    nodes. Every group must have equally many ranks on each of its nodes."""
    order = np.argsort(fabric.device_of[groups], axis=1)
    ranks = np.take_along_axis(groups, order, axis=1)
    num_nodes = len(np.unique(fabric.device_of[ranks[0]] // fabric.machine.devices_per_node))
    by_node = ranks.reshape(len(ranks), num_nodes, -1)
    return by_node.swapaxes(1, 2).reshape(-1, num_nodes), by_node.reshape(-1, by_node.shape[2])


def with_rates(library: Library, group: GroupShape, rates: LevelRates) -> Library:
    """Return the library with these rates for groups of this shape; if the library already has rates for the shape,
    with the slower of both."""
    levels = two_level_of(library)
    known = levels.rates.get(group, rates)
    slower = LevelRates(between=min(known.between, rates.between), inside=min(known.inside, rates.inside))
    return replace(library, two_level=replace(levels, rates={**levels.rates, group: slower}))


def levels_of(library: Library) -> tuple[Library, Library]:
    """Return the library of the calls between nodes, whose loads are the same for all kinds of collectives, and the
    library of the calls inside nodes."""
    levels = two_level_of(library)
    return next(iter(levels.calls.values())).between, levels.library_inside


def two_level_of(library: Library) -> TwoLevel:
    """Return the two-level parameters of a library; `allowed_algorithms` allows this algorithm only for libraries that
    have them."""
    assert library.two_level is not None, f"library {library.name} has no levels"
    return library.two_level


def two_level_pattern(
    fabric: Fabric, groups: Ranks, library: Library, shares: Callable[[Library], Mapping[str, float]]
) -> Pattern:
    """Return the load pattern of both calls, per byte of their common volume, as if they overlapped: in fact they run
    one after the other, and the library's rate cap accounts for the time of an isolated call. `shares`: function from
    the library of a level to the share of each link class that its rings achieve.

    Of the (n-1)/n S bytes that a rank sends, the fraction (k-1)/(n-1) goes between nodes and k (p-1)/(n-1) inside
    nodes.
    """
    size, ranks = groups.shape[1], level_groups(fabric, groups)
    num_nodes = ranks[0].shape[1]
    counts = (num_nodes - 1, size - num_nodes)
    between, inside = levels_of(library)
    group_of = np.empty(fabric.num_ranks, np.int32)
    group_of[groups] = np.arange(len(groups), dtype=np.int32)[:, None]
    full = dict.fromkeys(fabric.machine.link_classes, 1.0)
    rings = [  # by halving as many bytes go between nodes
        ring_loads(fabric, one, shares(level), level.ring_order)
        for one, level in zip(ranks, (between, inside), strict=True)
    ]
    waves = [_between(fabric, ranks[0], library, shares(between)), [(1.0, rings[1])]]
    act, link, weight = _summed(fabric, waves, counts, group_of)
    bare = ring_loads(fabric, ranks[1], full, inside.ring_order)
    carried_by, _, payload = _summed(
        fabric, [_between(fabric, ranks[0], library, full), [(1.0, bare)]], counts, group_of
    )
    peak = np.zeros(len(groups))
    np.maximum.at(peak, carried_by, payload)
    edges = np.zeros((len(groups), 3), np.int64)
    for pattern, count, other in zip(rings, counts, reversed(rings), strict=True):
        np.add.at(edges, _outer(pattern, group_of), pattern.edges * count * other.divisor)
    divisor = (size - 1) * rings[0].divisor * rings[1].divisor
    return finished(fabric, group_of, [act], [link], [weight], peak=peak, edges=edges, divisor=divisor)


def _between(fabric: Fabric, ranks: Ranks, library: Library, shares: Mapping[str, float]) -> Iterator[Wave]:
    """Yield the consecutive parts of the calls between nodes, each as its share of the bytes sent and its load pattern
    per byte."""
    if two_level_of(library).between_by == RING or ranks.shape[1] == 1:
        yield 1.0, ring_loads(fabric, ranks, shares, levels_of(library)[0].ring_order)
        return
    rounds = num_rounds(ranks.shape[1])
    for number in range(rounds):
        yield share_of(number, rounds), round_loads(fabric, ranks, shares, number)


def share_of(number: int, num_rounds: int) -> float:
    """Return the share of all bytes of a rank that it sends in one round of recursive halving: a half, a quarter and so
    on, divided by (k-1)/k."""
    return 0.5 ** (number + 1) / (1.0 - 0.5**num_rounds)


def _between_rate(fabric: Fabric, ranks: Ranks, library: Library, shares: Mapping[str, float]) -> float:
    """Return the rate, in bytes/s, at which a rank sends between nodes: its bytes divided by the time of all rounds,
    one after the other. In each round all messages on a link get equal parts of its bandwidth."""
    rates = [(share, equal_parts(fabric, loads)[1]) for share, loads in _between(fabric, ranks, library, shares)]
    seconds_per_byte = sum(share / float(each.min(initial=np.inf)) for share, each in rates)
    return 1.0 / seconds_per_byte if seconds_per_byte else math.inf


def _outer(pattern: Pattern, group_of: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return for each activity of one level's pattern the index of the two-level group to which it belongs."""
    outer = np.empty(pattern.num, np.int64)
    outer[pattern.group_of] = group_of
    return outer


def _summed(
    fabric: Fabric, levels: Sequence[Iterable[Wave]], counts: tuple[int, int], group_of: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the loads of both levels on wires as arrays (group of the two-level call, link, weight), with each (group,
    link) pair once."""
    num_links = len(fabric.capacity)
    places, weights = [], []
    for rounds, count in zip(levels, counts, strict=True):
        for share, pattern in rounds:
            wires = slice(0, pattern.num_wire_loads if count else 0)
            places.append(_outer(pattern, group_of)[pattern.act[wires]] * num_links + pattern.link[wires])
            weights.append(pattern.weight[wires] * (share * count / sum(counts)))
    place, which = np.unique(np.concatenate(places), return_inverse=True)
    weight = np.bincount(which, np.concatenate(weights), minlength=len(place)).astype(np.float64)
    act, link = np.divmod(place, num_links)
    return act, link, weight


def _shares_of_rings(level: Library, fabric: Fabric) -> Mapping[str, float]:
    return RINGS.shares_on(level, fabric.machine)


LEVELS = InTwoLevels(
    name=TWO_LEVEL,
    title="between nodes by rings or recursive halving, and rings inside each",
    collectives=("all_gather", "reduce_scatter", "all_reduce", "all_to_all"),
    lowered=two_level,
    laws=("levels",),
    in_libraries=("all_gather", "reduce_scatter", "all_reduce"),
    said_in="levels",
    has_floor=False,
    not_as_chunks="calls in two levels are not lowered to single messages; allowed: fidelity analytic or flow",
)
ALGORITHMS = (LEVELS,)
