"""From a recipe to transfers: one collective of one group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from simfrontier.collectives.lowering.direct import direct
from simfrontier.collectives.lowering.halving import halving
from simfrontier.collectives.lowering.hierarchical import hierarchical
from simfrontier.collectives.lowering.prove import prove
from simfrontier.collectives.lowering.recipe import Lowering, Recipe
from simfrontier.collectives.lowering.ring import ring
from simfrontier.collectives.lowering.transfers import Lowered
from simfrontier.collectives.lowering.tree import tree
from simfrontier.errors import InputError
from simfrontier.limits import TRANSFERS
from simfrontier.schedule.ir import CollectiveKind

CARRIES: Final[Mapping[Lowering, tuple[CollectiveKind, ...]]] = {
    "ring": ("all_gather", "reduce_scatter", "all_reduce"),
    "ring_twice": ("reduce_scatter",),
    "halving": ("all_gather", "reduce_scatter", "all_reduce"),
    "tree": ("all_reduce",),
    "direct": ("all_gather", "reduce_scatter", "all_reduce", "all_to_all"),
    "hierarchical": ("all_gather", "reduce_scatter", "all_reduce", "all_to_all"),
}
MAKERS: Final[Mapping[Lowering, Callable[[CollectiveKind, Recipe], Lowered]]] = {
    "ring": ring,
    "ring_twice": ring,
    "halving": halving,
    "tree": tree,
    "direct": direct,
    "hierarchical": hierarchical,
}


def num_transfers(kind: CollectiveKind, recipe: Recipe) -> int:
    """How many transfers a collective is at most, counted without making them: of rings exactly."""
    size, parts = recipe.size, len(recipe.orders) * recipe.slices
    passes = 2 if kind == "all_reduce" or recipe.algorithm == "ring_twice" else 1
    if kind == "all_to_all":  # copies within a member, and of two levels one after the other
        return 2 * size * size * parts
    if recipe.algorithm in ("tree", "halving"):
        return 2 * passes * size * parts * max(1, (size - 1).bit_length())
    return passes * size * max(1, size - 1) * parts


@lru_cache(maxsize=256)
def lower(kind: CollectiveKind, recipe: Recipe) -> Lowered:
    """The transfers of a collective. Raises InputError where the algorithm does not carry the kind, or the recipe does
    not hold together."""
    if said := recipe.fault():
        raise InputError(f"recipe {recipe.algorithm}: {said}")
    if kind not in CARRIES[recipe.algorithm]:
        others = [algorithm for algorithm, kinds in CARRIES.items() if kind in kinds]
        raise InputError(f"{recipe.algorithm} does not carry {kind}; allowed for it: {', '.join(others)}")
    if fault := TRANSFERS.fault(num_transfers(kind, recipe)):
        parts = f"{recipe.size} members, {len(recipe.orders)} channels, {recipe.slices} slices"
        raise InputError(f"{recipe.algorithm} {kind} of {parts}: {fault}")
    lowered = replace(MAKERS[recipe.algorithm](kind, recipe), least_elements=recipe.least_elements)
    findings = prove(lowered)
    assert not findings, f"{recipe.algorithm} {kind}: {findings[0]}"
    return lowered
