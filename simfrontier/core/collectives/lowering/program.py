"""A schedule's collectives, lowered: one recipe per group of every distinct collective."""

from __future__ import annotations

from dataclasses import dataclass

from simfrontier.core.collectives.lowering.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredSchedule:
    """How the collectives of one schedule are carried.

    `digest` is the schedule's. `recipes[i][g]`: the i-th distinct collective of the schedule, in order of appearance,
    and its g-th group, as `schedule.mesh.groups(op.axes)` numbers them.
    """

    digest: str
    recipes: tuple[tuple[Recipe, ...], ...]
