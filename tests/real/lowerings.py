"""Lowered schedules for the tests: every collective of a schedule by an algorithm that carries its kind."""

from __future__ import annotations

import random
from collections.abc import Mapping

from simfrontier.core.collectives import LoweredSchedule, Recipe
from simfrontier.core.program import Schedule, digest
from simfrontier.core.program.ir import CollectiveKind
from simfrontier_real.ranks.transport import collectives_of

RINGS: Mapping[CollectiveKind, str] = {
    "all_gather": "ring",
    "reduce_scatter": "ring",
    "all_reduce": "ring",
    "all_to_all": "direct",
}
MIXED: Mapping[CollectiveKind, str] = {
    "all_gather": "two_level",
    "reduce_scatter": "halving",
    "all_reduce": "tree",
    "all_to_all": "two_level",
}


def recipe_of(algorithm: str, size: int, channels: int = 1, slices: int = 1, per_node: int | None = None) -> Recipe:
    """Members node after node in every channel; each channel begins one further on in the node, odd ones backwards."""
    each = per_node or size
    orders = []
    for channel in range(channels):
        node = [(place + channel) % each for place in range(each)]
        node = node[::-1] if channel % 2 else node
        orders.append(tuple(begin + place for begin in range(0, size, each) for place in node))
    return Recipe(algorithm=algorithm, orders=tuple(orders), per_node=each, slices=slices)


def lowered_of(
    schedule: Schedule, by_kind: Mapping[CollectiveKind, str] = RINGS, channels: int = 2, slices: int = 2
) -> LoweredSchedule:
    """All collectives of a schedule; groups of an even number of members are taken to lie on two nodes."""
    recipes = []
    for op in collectives_of(schedule):
        groups, size = schedule.mesh.groups(schedule.mesh.live(op.axes)).shape
        per_node = size // 2 if size % 2 == 0 else size
        one = recipe_of(by_kind[op.wire_kind], size, channels, slices, per_node)
        recipes.append((one,) * groups)
    return LoweredSchedule(digest=digest(schedule), recipes=tuple(recipes))


def shuffled(size: int, channels: int, slices: int, seed: int, algorithm: str) -> Recipe:
    """Orders as they come."""
    numbers = random.Random(seed)
    orders = tuple(tuple(numbers.sample(range(size), size)) for _ in range(channels))
    return Recipe(algorithm=algorithm, orders=orders, per_node=size, slices=slices)
