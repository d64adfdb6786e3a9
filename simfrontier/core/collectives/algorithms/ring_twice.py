"""A reduce-scatter that is done as a ring all-reduce of the whole message, of which a rank keeps its part (gloo)."""

from __future__ import annotations

from dataclasses import dataclass

from simfrontier.core.collectives.algorithms.ring import Ring, ring
from simfrontier.core.collectives.lowering.recipe import Recipe
from simfrontier.core.collectives.lowering.transfers import Lowered
from simfrontier.core.program import RING_TWICE, CollectiveKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RingTwice(Ring):
    """A ring whose blocks go around twice, whatever the call."""

    def rounds(self, kind: CollectiveKind) -> int:
        return 2

    def lowered(self, kind: CollectiveKind, recipe: Recipe) -> Lowered:
        return ring(kind, recipe, twice=True)

    def memory_per_byte(self, kind: CollectiveKind) -> float:
        return 2.5


ALGORITHM = RingTwice(
    name=RING_TWICE,
    title="a ring all-reduce, of which a rank keeps its part",
    collectives=("reduce_scatter",),
    in_libraries=("reduce_scatter",),
)
