"""Transfers of two-level collectives: between the ranks with the same position on each node, and inside nodes."""

from __future__ import annotations

from simfrontier.core.collectives.algorithms.direct import direct
from simfrontier.core.collectives.transfers import Lowered, Recipe, Transfer, cut, in_time, mirrored
from simfrontier.core.program import CollectiveKind


def two_level(kind: CollectiveKind, recipe: Recipe) -> Lowered:
    """Return the transfers of a collective. All-gather: rings between nodes, among the ranks with the same position on
    each node, then rings inside each node; a piece goes around a node as soon as it arrives there. Reduce-scatter: the
    same transfers in reverse. All-reduce: a reduce-scatter and then an all-gather. All-to-all: each piece goes, inside
    the node, to the rank that has the target's position, and from there to the target's node, all pieces for one node
    in one message."""
    if kind == "all_to_all":
        return exchange(recipe)
    gathers = _all_gather(recipe)
    transfers: list[Transfer] = []
    if kind in ("reduce_scatter", "all_reduce"):
        transfers += mirrored(gathers, add=True)
    if kind in ("all_gather", "all_reduce"):
        transfers += gathers
    return Lowered(kind=kind, size=recipe.size, parts=recipe.parts, transfers=tuple(transfers))


def _all_gather(recipe: Recipe) -> tuple[Transfer, ...]:
    each, nodes, parts = recipe.per_node, recipe.num_nodes, recipe.parts
    timed: list[tuple[int, Transfer]] = []
    for part in range(parts):
        channel = part // recipe.slices
        order = recipe.orders[channel]
        for place, member in enumerate(order):
            chunk = member * parts + part
            home, seat = divmod(place, each)
            for hop in range(nodes):  # the piece is on node `here` after `hop` hops
                here, there = [(home + hop + ahead) % nodes * each for ahead in (0, 1)]
                edges = [(hop, here + seat, there + seat)] if hop < nodes - 1 else []
                for j in range(each - 1):
                    edges.append((hop + j, here + (seat + j) % each, here + (seat + j + 1) % each))
                for stage, source, target in edges:
                    timed.append((stage, Transfer(order[source], order[target], chunk, chunk, 1, False, channel)))
    return in_time(timed)


def exchange(recipe: Recipe) -> Lowered:
    """Return the transfers of an all-to-all. All pieces from the ranks of one node for one rank of another node are
    gathered at the rank of their own node that has the target's position, and sent from there in one message (per
    slice) if the order of the group makes them contiguous.

    With one rank per node there is nothing to gather, and the messages are direct.
    """
    if recipe.per_node == 1:
        return direct("all_to_all", recipe)
    size, slices, parts = recipe.size, recipe.slices, recipe.parts
    timed = [entry for channel in range(len(recipe.orders)) for entry in _Channel(recipe, channel).timed()]
    room = [
        channel * slices + part for channel in range(len(recipe.orders)) for _ in range(size) for part in range(slices)
    ]
    return Lowered(kind="all_to_all", size=size, parts=parts, transfers=in_time(timed), like=tuple(room))


class _Channel:
    """One channel's share of every piece of an all-to-all. The channel has a staging area on each rank: for each
    destination node, one piece per rank of the sending node."""

    def __init__(self, recipe: Recipe, channel: int) -> None:
        self.recipe, self.channel, self.order = recipe, channel, recipe.orders[channel]

    def timed(self) -> list[tuple[int, Transfer]]:
        """Return the transfers with their stages: pieces for the node `ahead` nodes further on are gathered in stage
        `ahead` and sent in the next stage, after the gathering of that stage; messages inside the node come last, since
        no rank waits for them."""
        each, nodes = self.recipe.per_node, self.recipe.num_nodes
        out: list[tuple[int, Transfer]] = []
        for ahead in range(nodes):
            stage = ahead or nodes
            for turn in range(each):
                for place in range(self.recipe.size):
                    home, seat = divmod(place, each)
                    partner, node = (seat + turn) % each, (home + ahead) % nodes
                    to = self._room(node, seat) if ahead else self._piece(place, line=1)
                    moved = zip(self._piece(node * each + partner, line=0), to, strict=True)
                    out += [(2 * stage, t) for t in self._sent(place, home * each + partner, list(moved))]
            for place in range(self.recipe.size) if ahead else ():
                home, seat = divmod(place, each)
                node = (home + ahead) % nodes
                chunks = [chunk for source in range(each) for chunk in self._room(node, source)]
                to = [chunk for source in range(each) for chunk in self._piece(home * each + source, line=1)]
                moved = zip(chunks, to, strict=True)
                out += [(2 * stage + 3, t) for t in self._sent(place, node * each + seat, list(moved))]
        return out

    def _sent(self, source: int, target: int, pairs: list[tuple[int, int]]) -> list[Transfer]:
        return [
            Transfer(self.order[source], self.order[target], chunk, to, count, False, self.channel)
            for runs in cut(pairs, self.recipe.slices)
            for chunk, to, count in runs
        ]

    def _piece(self, place: int, line: int) -> list[int]:
        """Return the channel's chunks of the piece of the rank at a position of the order, in the message (`line` 0) or
        in the result (`line` 1)."""
        slices, channels, size = self.recipe.slices, len(self.recipe.orders), self.recipe.size
        first = ((line * size + self.order[place]) * channels + self.channel) * slices
        return list(range(first, first + slices))

    def _room(self, node: int, seat: int) -> list[int]:
        slices, size = self.recipe.slices, self.recipe.size
        beyond = 2 * size * len(self.recipe.orders) * slices
        first = beyond + (self.channel * size + node * self.recipe.per_node + seat) * slices
        return list(range(first, first + slices))
