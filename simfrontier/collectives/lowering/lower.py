"""From a recipe to transfers: one collective of one group."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from simfrontier.collectives.algorithms import algorithm, all_algorithms
from simfrontier.collectives.algorithms.base import TRANSFERS
from simfrontier.collectives.lowering.prove import prove
from simfrontier.collectives.lowering.recipe import Recipe
from simfrontier.collectives.lowering.transfers import Lowered
from simfrontier.errors import InputError
from simfrontier.schedule import CollectiveKind


@lru_cache(maxsize=256)
def lower(kind: CollectiveKind, recipe: Recipe) -> Lowered:
    """The transfers of a collective. Raises InputError where the algorithm does not carry the kind, or the recipe does
    not hold together."""
    if text := recipe.fault():
        raise InputError(f"recipe {recipe.algorithm}: {text}")
    by = algorithm(recipe.algorithm)
    if kind not in by.collectives:
        others = [each.name for each in all_algorithms() if kind in each.collectives]
        raise InputError(f"{recipe.algorithm} does not carry {kind}; allowed for it: {', '.join(others)}")
    if fault := TRANSFERS.fault(by.num_transfers(kind, recipe)):
        parts = f"{recipe.size} members, {len(recipe.orders)} channels, {recipe.slices} slices"
        raise InputError(f"{recipe.algorithm} {kind} of {parts}: {fault}")
    lowered = replace(by.lowered(kind, recipe), least_elements=recipe.least_elements)
    findings = prove(lowered)
    assert not findings, f"{recipe.algorithm} {kind}: {findings[0]}"
    return lowered
