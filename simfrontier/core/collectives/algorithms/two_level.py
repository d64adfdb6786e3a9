"""Two levels, as in PCCL (arXiv 2504.18658): between the members with the same place on each node, and inside nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simfrontier.core.collectives.algorithms.base import COPIED, Algorithm, CallsAlone
from simfrontier.core.collectives.algorithms.exchange import exchange
from simfrontier.core.collectives.algorithms.levels import (
    cap_of_levels,
    latency_of_levels,
    level_groups,
    level_rates,
    levels_of,
    two_level_pattern,
    with_rates,
)
from simfrontier.core.collectives.algorithms.ring import ALGORITHM as RINGS
from simfrontier.core.collectives.laws import GroupShape
from simfrontier.core.collectives.library import LevelRates
from simfrontier.core.collectives.lowering.recipe import Recipe, in_time, mirrored
from simfrontier.core.collectives.lowering.transfers import Lowered, Transfer
from simfrontier.core.program import RING, TWO_LEVEL, CollectiveKind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from simfrontier.core.collectives.library import Library
    from simfrontier.core.network import Fabric, Pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class InTwoLevels(Algorithm):
    """Two calls of two libraries, which a library's file names as its levels; they follow one another."""

    def lowered(self, kind: CollectiveKind, recipe: Recipe) -> Lowered:
        return two_level(kind, recipe)

    def num_transfers(self, kind: CollectiveKind, recipe: Recipe) -> int:
        size, parts = recipe.size, len(recipe.orders) * recipe.slices
        if kind == "all_to_all":  # one level after the other
            return 2 * size * size * parts
        return (2 if kind == "all_reduce" else 1) * size * max(1, size - 1) * parts

    def memory_per_byte(self, kind: CollectiveKind) -> float:
        return {"reduce_scatter": 3.0, "all_reduce": 2.5}.get(kind, COPIED)

    def loads(
        self, fabric: Fabric, groups: NDArray[np.integer], library: Library, shares: Mapping[str, float] | None = None
    ) -> Pattern:
        return two_level_pattern(
            fabric, groups, library, lambda level: _of_rings(level, fabric) if shares is None else shares
        )

    def seconds_alone(self, calls: CallsAlone, library: Library, kind: CollectiveKind, message_bytes: float) -> float:
        """At the rates of both levels' calls, each alone."""
        known = self.knowing(library, calls)
        return self.seconds_at(known, kind, message_bytes, calls.shape, self.cap_bytes_per_s(known, calls.shape))

    def knowing(self, library: Library, calls: CallsAlone) -> Library:
        """How fast the calls of both levels are, of rings with what is laid out once for all libraries."""
        assert library.two_level is not None, "`allowed_algorithms` names no levels in a library of one"
        if library.two_level.between_by != RING:
            fabric = calls.fabric
            rates = level_rates(fabric, calls.groups, calls.shape, library, lambda level: _of_rings(level, fabric))
            return with_rates(library, calls.shape, rates)
        levels = zip(calls.split(self.name, level_groups), levels_of(library), strict=True)
        between, inside = (groups.sent_per_s(RING, level) for groups, level in levels)
        return with_rates(library, calls.shape, LevelRates(between=between, inside=inside))

    def latency_s(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        assert library.two_level is not None, "`allowed_algorithms` names no levels in a library of one"
        return latency_of_levels(library.two_level, kind, message_bytes, group)

    def cap_bytes_per_s(self, library: Library, group: GroupShape) -> float:
        assert library.two_level is not None, "`allowed_algorithms` names no levels in a library of one"
        return cap_of_levels(library.two_level, group)

    def lacks(self, library: Library, kind: CollectiveKind) -> str:
        if library.two_level is None:
            return "levels"
        halves: tuple[CollectiveKind, ...] = ("reduce_scatter", "all_gather") if kind == "all_reduce" else (kind,)
        missing = [half for half in halves if half not in library.two_level.calls]
        return f"levels of {missing[0]}" if missing else ""


ALGORITHM = InTwoLevels(
    name=TWO_LEVEL,
    title="between nodes by rings or recursive halving, and rings inside each",
    collectives=("all_gather", "reduce_scatter", "all_reduce", "all_to_all"),
    laws=("levels",),
    in_libraries=("all_gather", "reduce_scatter", "all_reduce"),
    said_in="levels",
    has_floor=False,
    not_as_chunks="calls in two levels are not lowered to single messages; allowed: fidelity analytic or flow",
)


def _of_rings(level: Library, fabric: Fabric) -> Mapping[str, float]:
    return RINGS.shares_on(level, fabric.machine)


def two_level(kind: CollectiveKind, recipe: Recipe) -> Lowered:
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
