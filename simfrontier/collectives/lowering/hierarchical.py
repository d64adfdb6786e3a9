"""Two levels, as in PCCL (arXiv 2504.18658): between the members with the same place on each node, and inside nodes."""

from __future__ import annotations

from simfrontier.collectives.lowering.exchange import exchange
from simfrontier.collectives.lowering.recipe import Recipe
from simfrontier.collectives.lowering.stages import in_time, mirrored
from simfrontier.collectives.lowering.transfers import Lowered, Transfer
from simfrontier.schedule.ir import CollectiveKind


def hierarchical(kind: CollectiveKind, recipe: Recipe) -> Lowered:
    """All-gather: rings between the nodes among members with the same place, then rings inside each node; a piece goes
    round a node as soon as it is there. Reduce-scatter: the same backwards. All-reduce: the one after the other.
    All-to-all: inside the node to the member with the target's place, then all that is for one node in one message."""
    if kind == "all_to_all":
        return exchange(recipe)
    gathers = _all_gather(recipe)
    transfers: list[Transfer] = []
    if kind in ("reduce_scatter", "all_reduce"):
        transfers += mirrored(gathers, add=True)
    if kind in ("all_gather", "all_reduce"):
        transfers += gathers
    return Lowered(kind=kind, size=recipe.size, parts=len(recipe.orders) * recipe.slices, transfers=tuple(transfers))


def _all_gather(recipe: Recipe) -> tuple[Transfer, ...]:
    each, nodes, parts = recipe.per_node, recipe.num_nodes, len(recipe.orders) * recipe.slices
    timed: list[tuple[int, Transfer]] = []
    for part in range(parts):
        channel = part // recipe.slices
        order = recipe.orders[channel]
        for place, member in enumerate(order):
            chunk = member * parts + part
            home, seat = divmod(place, each)
            for hop in range(nodes):  # the piece is on node `here` after so many hops
                here, there = [(home + hop + ahead) % nodes * each for ahead in (0, 1)]
                edges = [(hop, here + seat, there + seat)] if hop < nodes - 1 else []
                for j in range(each - 1):
                    edges.append((hop + j, here + (seat + j) % each, here + (seat + j + 1) % each))
                for stage, source, target in edges:
                    timed.append((stage, Transfer(order[source], order[target], chunk, chunk, 1, False, channel)))
    return in_time(timed)
