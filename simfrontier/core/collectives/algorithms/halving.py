"""Recursive halving and doubling, for any number of members: ceil(log2 n) rounds, (n-1)/n of the whole sent by each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.errors import InputError
from simfrontier.core.collectives.algorithms.base import Algorithm, CallsAlone
from simfrontier.core.collectives.algorithms.ring import ring_template
from simfrontier.core.collectives.laws import GroupShape
from simfrontier.core.collectives.transfers import Lowered, Recipe, Transfer, cut, mirrored
from simfrontier.core.network import Pattern, assemble, lay_out, masks, pool_loads
from simfrontier.core.program import DIRECT, HALVING, CollectiveKind

if TYPE_CHECKING:
    from simfrontier.core.collectives.library import Library
    from simfrontier.core.network import Fabric


@dataclass(frozen=True, slots=True, kw_only=True)
class Halving(Algorithm):
    """Recursive halving: exchanges in pairs, each of half as many bytes as the one before."""

    def num_transfers(self, kind: CollectiveKind, recipe: Recipe) -> int:
        return 2 * self.rounds(kind) * recipe.size * recipe.parts * max(1, (recipe.size - 1).bit_length())

    def seconds_alone(self, calls: CallsAlone, library: Library, kind: CollectiveKind, message_bytes: float) -> float:
        """Return the sum over all rounds: S/2 goes to the neighbour, S/4 two ranks further, S/8 four ranks further and
        so on."""
        rounds = calls.split(self.name, pairs_of_rounds)
        times = (
            pairs.seconds_by(DIRECT, library, "all_to_all", message_bytes / 2**number)
            for number, pairs in enumerate(rounds)
        )
        return sum(times) * self.rounds(kind)

    def latency_s(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        raise AssertionError("each round of it is a direct exchange in pairs, at a rate of its own")


def pairs_of_rounds(fabric: Fabric, groups: NDArray[np.integer]) -> list[NDArray[np.integer]]:
    """Return the pairs that exchange in each round. Raises InputError if the group size is no power of two."""
    size = groups.shape[1]
    out: list[NDArray[np.integer]] = []
    for number in range(num_rounds(size)):
        lower = np.flatnonzero(np.arange(size) & 2**number == 0)
        places = np.stack([lower, lower + 2**number], axis=1)
        out.append(groups[:, places].reshape(-1, 2))
    return out


def num_rounds(size: int) -> int:
    """Return the number of rounds of groups of that size. Raises InputError if it is no power of two."""
    if size.bit_count() != 1:
        raise InputError(f"recursive halving: got groups of {size} devices, allowed: powers of two")
    return size.bit_length() - 1


def round_loads(fabric: Fabric, groups: NDArray[np.integer], shares: Mapping[str, float], number: int) -> Pattern:
    """Return the loads of one round of groups with one rank on each of 2^m nodes: each exchanges all of the volume with
    the node 2^number before or after its own."""
    at = lay_out(fabric, groups)
    assert at.size == len(at.group) // at.num_groups, "one rank on each node"
    partner = np.arange(len(at.group)) - at.order + (at.order ^ 2**number)
    pools = pool_loads(fabric, at.group, at.node, at.node[partner], np.ones(len(at.node)))
    templates = {mask: ring_template(fabric.machine, mask, True, "ranks") for mask in masks(at)}
    return assemble(fabric, at, templates, shares, divisor=1, pools=pools)


def halving(kind: CollectiveKind, recipe: Recipe) -> Lowered:
    """Return the transfers of a call. Reduce-scatter: the places of the order are split into two halves, the first
    larger by at most one. Every member sends the pieces of the other half's members to its partner there; then each
    half continues by itself. All-gather: the reverse. All-reduce: one after the other, in place.

    Where a half has one more member, that member shares the last partner of the other half: it sends its contributions
    there and receives nothing back. So every contribution to a piece moves exactly once in each round in which its
    holder and the piece are separated, for any n; with a power of two this is the textbook algorithm.
    """
    reduces = _reduce_scatter(recipe, whole=kind == "all_reduce")
    transfers: list[Transfer] = []
    if kind in ("reduce_scatter", "all_reduce"):
        transfers += reduces
    if kind in ("all_gather", "all_reduce"):
        transfers += mirrored(reduces, add=False)
    return Lowered(kind=kind, size=recipe.size, parts=recipe.parts, transfers=tuple(transfers))


def _reduce_scatter(recipe: Recipe, whole: bool) -> list[Transfer]:
    """Return the transfers round by round; within a round slice by slice, so that data that the receiver forwards next
    comes first."""
    out: list[Transfer] = []
    for messages in _rounds(recipe.size):
        sliced: list[list[Transfer]] = [[] for _ in range(recipe.slices)]
        for channel, order in enumerate(recipe.orders):
            for source, target, begin, end in messages:
                places = sorted(range(begin, end), key=lambda place: (_parting(target, place, begin, end), place))
                chunks = [chunk for place in places for chunk in _chunks(recipe, channel, place, whole)]
                for number, runs in enumerate(cut([(chunk, chunk) for chunk in chunks], recipe.slices)):
                    for chunk, to, count in runs:
                        sliced[number].append(Transfer(order[source], order[target], chunk, to, count, True, channel))
        out += [transfer for part in sliced for transfer in part]
    return out


def _chunks(recipe: Recipe, channel: int, place: int, whole: bool) -> range:
    """Return the chunks of a place's piece that a channel carries. In an all-reduce (`whole`) no member owns a piece,
    and a channel's chunks are contiguous, so that each of its messages is one run."""
    if whole:
        first = (channel * recipe.size + place) * recipe.slices
    else:
        first = (recipe.orders[channel][place] * len(recipe.orders) + channel) * recipe.slices
    return range(first, first + recipe.slices)


def _rounds(size: int) -> list[list[tuple[int, int, int, int]]]:
    """Return for each round the messages (source, target, begin, end), all as places: the pieces from begin to end are
    sent."""
    out: list[list[tuple[int, int, int, int]]] = []
    ranges = [(0, size)]
    while any(end - begin > 1 for begin, end in ranges):
        messages, halves = [], []
        for begin, end in ranges:
            middle = _middle(begin, end)
            halves += [(begin, middle), (middle, end)] if middle < end else [(begin, end)]
            for place in range(begin, middle if middle < end else begin):
                partner = min(middle + place - begin, end - 1)
                messages.append((place, partner, middle, end))
                if middle + place - begin < end:
                    messages.append((partner, place, begin, middle))
        out.append(messages)
        ranges = halves
    return out


def _middle(begin: int, end: int) -> int:
    return (begin + end + 1) // 2


def _parting(holder: int, place: int, begin: int, end: int) -> int:
    """Return the number of rounds from now until a piece leaves its holder, both within begin to end; its own goes
    last."""
    rounds = 0
    while end - begin > 1:
        middle = _middle(begin, end)
        if (holder < middle) != (place < middle):
            return rounds
        begin, end = (begin, middle) if holder < middle else (middle, end)
        rounds += 1
    return rounds


_ALONE = (
    "recursive halving is modelled for calls alone, not for plans; allowed: a library that goes by rings, trees or "
    "direct messages"
)
HALVINGS = Halving(
    name=HALVING,
    title="recursive halving",
    collectives=("all_gather", "reduce_scatter", "all_reduce"),
    lowered=halving,
    adds_in_place=False,
    in_libraries=("all_gather", "reduce_scatter", "all_reduce"),
    not_as_loads=_ALONE,
    not_as_chunks=_ALONE,
)
ALGORITHMS = (HALVINGS,)
