"""Rings: every channel sends its share of each piece around its own order of the members."""

from __future__ import annotations

from simfrontier.collectives.lowering.recipe import Recipe
from simfrontier.collectives.lowering.transfers import Lowered, Transfer
from simfrontier.schedule.ir import CollectiveKind


def ring(kind: CollectiveKind, recipe: Recipe) -> Lowered:
    """All-gather: piece m travels n - 1 hops from member m on. Reduce-scatter: it sets out one hop behind member m and
    gathers a contribution at every hop, to end there. All-reduce: the one after the other, in place. `ring_twice` is
    a reduce-scatter by the transfers of an all-reduce: every member ends with more than it needs."""
    size, parts = recipe.size, len(recipe.orders) * recipe.slices
    transfers: list[Transfer] = []
    if kind in ("reduce_scatter", "all_reduce"):
        transfers += _around(recipe, parts, first=-1, add=True)
    if kind in ("all_gather", "all_reduce") or recipe.algorithm == "ring_twice":
        transfers += _around(recipe, parts, first=0, add=False)
    return Lowered(kind=kind, size=size, parts=parts, transfers=tuple(transfers))


def _around(recipe: Recipe, parts: int, first: int, add: bool) -> list[Transfer]:
    """Step s: the member at place p sends the piece of the member at place p + first - s to the next place."""
    size, out = recipe.size, []
    for step in range(size - 1):
        for part in range(parts):
            channel = part // recipe.slices
            order = recipe.orders[channel]
            for place in range(size):
                piece = order[(place + first - step) % size]
                chunk = piece * parts + part
                out.append(Transfer(order[place], order[(place + 1) % size], chunk, chunk, 1, add, channel))
    return out
