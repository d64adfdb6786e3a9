"""Direct messages: every member sends to every other one, the j-th message to the member j places further on."""

from __future__ import annotations

from simfrontier.collectives.lowering.recipe import Recipe
from simfrontier.collectives.lowering.stages import in_time
from simfrontier.collectives.lowering.transfers import Lowered, Transfer
from simfrontier.schedule.ir import CollectiveKind


def direct(kind: CollectiveKind, recipe: Recipe) -> Lowered:
    """Nobody is sent to by all at once. What arrives to be added is added in the order of the sources' places.

    All-reduce: a reduce-scatter, then an all-gather; a slice is gathered while the next ones are reduced.
    """
    size, parts = recipe.size, len(recipe.orders) * recipe.slices
    timed: list[tuple[int, Transfer]] = []
    for part in range(parts):
        channel, slice_ = divmod(part, recipe.slices)
        order = recipe.orders[channel]
        if kind == "all_to_all":
            timed += [(slice_, _across(size, parts, part, m, m, channel)) for m in order]
        if kind in ("reduce_scatter", "all_reduce"):
            for source, target in _by_source(size):
                chunk = order[target] * parts + part
                timed.append((slice_, Transfer(order[source], order[target], chunk, chunk, 1, True, channel)))
        if kind in ("all_gather", "all_reduce"):
            for source, target in _staggered(size):
                chunk = order[source] * parts + part
                stage = slice_ + (kind == "all_reduce")
                timed.append((stage, Transfer(order[source], order[target], chunk, chunk, 1, False, channel)))
        if kind == "all_to_all":
            for source, target in _staggered(size):
                timed.append((slice_, _across(size, parts, part, order[source], order[target], channel)))
    return Lowered(kind=kind, size=size, parts=parts, transfers=in_time(timed))


def _across(size: int, parts: int, part: int, source: int, target: int, channel: int) -> Transfer:
    """A part of the piece for `target`, to where the result has the piece of `source`."""
    return Transfer(source, target, target * parts + part, (size + source) * parts + part, 1, False, channel)


def _staggered(size: int) -> list[tuple[int, int]]:
    return [(place, (place + ahead) % size) for ahead in range(1, size) for place in range(size)]


def _by_source(size: int) -> list[tuple[int, int]]:
    """Every (source, target) pair, each source's targets from the place behind it on, each target's sources ascending:
    first the messages to later places, then those to earlier ones."""
    pairs = [(source, target) for source in range(size) for target in range(size) if source != target]
    return sorted(pairs, key=lambda pair: (pair[0] > pair[1], sum(pair)))
