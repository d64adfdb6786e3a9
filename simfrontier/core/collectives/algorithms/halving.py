"""Recursive halving and doubling, for any number of ranks n: ceil(log2 n) rounds; each rank sends (n-1)/n of the
message."""

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
    """Recursive halving: successive exchanges between pairs of ranks, each of half as many bytes as the previous
    one."""

    def num_transfers(self, kind: CollectiveKind, recipe: Recipe) -> int:
        return 2 * self.rounds(kind) * recipe.size * recipe.parts * max(1, (recipe.size - 1).bit_length())

    def seconds_alone(self, calls: CallsAlone, library: Library, kind: CollectiveKind, message_bytes: float) -> float:
        """Return the sum of the times of all rounds: S/2 bytes go to the neighbour, S/4 to the rank two further on, S/8
        to the rank four further on, and so on."""
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
    """Return for each round the pairs of ranks that exchange data. Raises InputError if the group size is not a power
    of two."""
    size = groups.shape[1]
    out: list[NDArray[np.integer]] = []
    for number in range(num_rounds(size)):
        lower = np.flatnonzero(np.arange(size) & 2**number == 0)
        places = np.stack([lower, lower + 2**number], axis=1)
        out.append(groups[:, places].reshape(-1, 2))
    return out


def num_rounds(size: int) -> int:
    """Return the number of rounds in groups of `size` ranks. Raises InputError if the size is not a power of two."""
    if size.bit_count() != 1:
        raise InputError(f"recursive halving: got groups of {size} devices, allowed: powers of two")
    return size.bit_length() - 1


def round_loads(fabric: Fabric, groups: NDArray[np.integer], shares: Mapping[str, float], number: int) -> Pattern:
    """Return the load pattern of one round, for groups with one rank on each of 2^m nodes: each rank exchanges its
    whole volume with the rank 2^number nodes before or after its own."""
    at = lay_out(fabric, groups)
    assert at.size == len(at.group) // at.num_groups, "one rank on each node"
    partner = np.arange(len(at.group)) - at.order + (at.order ^ 2**number)
    pools = pool_loads(fabric, at.group, at.node, at.node[partner], np.ones(len(at.node)))
    templates = {mask: ring_template(fabric.machine, mask, True, "ranks") for mask in masks(at)}
    return assemble(fabric, at, templates, shares, divisor=1, pools=pools)


def halving(kind: CollectiveKind, recipe: Recipe) -> Lowered:
    """Return the transfers of a collective. Reduce-scatter: the positions of the order are split into two halves, the
    first larger by at most one. Every rank sends the pieces of the other half's ranks to its partner in that half; then
    each half continues by itself. All-gather: the same transfers in reverse. All-reduce: a reduce-scatter and then an
    all-gather, in place.

    If one half has one rank more, that rank shares the last partner of the other half: it sends its contributions to
    that partner and receives nothing back. So every contribution to a piece moves exactly once in each round that
    separates its holder from the rank that owns the piece, for any n; with a power of two this is the textbook
    algorithm.
    """
    reduces = _reduce_scatter(recipe, whole=kind == "all_reduce")
    transfers: list[Transfer] = []
    if kind in ("reduce_scatter", "all_reduce"):
        transfers += reduces
    if kind in ("all_gather", "all_reduce"):
        transfers += mirrored(reduces, add=False)
    return Lowered(kind=kind, size=recipe.size, parts=recipe.parts, transfers=tuple(transfers))


def _reduce_scatter(recipe: Recipe, whole: bool) -> list[Transfer]:
    """Return the transfers of a reduce-scatter in the order of rounds, and within a round in the order of slices; data
    that the receiver forwards next is sent first."""
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
    """Return the chunks that a channel carries of the piece at a position of the order. In an all-reduce (`whole`) no
    rank owns a piece, so a channel's chunks are numbered contiguously and each message is one run of chunks."""
    if whole:
        first = (channel * recipe.size + place) * recipe.slices
    else:
        first = (recipe.orders[channel][place] * len(recipe.orders) + channel) * recipe.slices
    return range(first, first + recipe.slices)


def _rounds(size: int) -> list[list[tuple[int, int, int, int]]]:
    """Return for each round its messages (source, target, begin, end), all as positions in the order: the source sends
    the pieces begin to end - 1 to the target."""
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
    """Return the number of rounds before a piece leaves the rank that holds it; positions of both are between begin and
    end. A rank's own piece never leaves and gets the highest number."""
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
