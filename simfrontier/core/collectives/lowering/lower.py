"""Lowering: the collectives of a schedule as recipes, and a recipe as the transfers of one group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from simfrontier.base.errors import InputError
from simfrontier.core.collectives.algorithms import algorithm, all_algorithms
from simfrontier.core.collectives.algorithms.base import TRANSFERS
from simfrontier.core.collectives.lowering.prove import prove
from simfrontier.core.collectives.lowering.recipe import Recipe
from simfrontier.core.collectives.lowering.transfers import Lowered
from simfrontier.core.program import CollectiveKind


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredSchedule:
    """How the collectives of one schedule are carried.

    `digest` is the schedule's. `recipes[i][g]`: the i-th distinct collective of the schedule, in order of appearance,
    and its g-th group, as `schedule.mesh.groups(op.axes)` numbers them.
    """

    digest: str
    recipes: tuple[tuple[Recipe, ...], ...]
