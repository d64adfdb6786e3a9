"""One step around a ring of ranks: every rank sends a block to the next rank of its group, by messages of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfrontier.core.collectives.algorithms.direct import Direct
from simfrontier.core.collectives.algorithms.ring import ring, ring_loads
from simfrontier.core.collectives.laws import GroupShape
from simfrontier.core.network import Fabric, Pattern
from simfrontier.core.program import SHIFT, CollectiveKind

if TYPE_CHECKING:
    from simfrontier.core.collectives.library import Library


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift(Direct):
    """A step of a ring, which is a piece of a gather or of a reduction. Its message is one block of S bytes, which
    every rank sends to the rank after it, as exchanges between stages send it: without the channels over all links that
    a library's own rings have, so that a ring over several nodes crosses each border by one NIC."""

    def sent_part(self, kind: CollectiveKind, num_ranks: int) -> Fraction:
        return Fraction(1)

    def latency_s(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        """Return the start-up of the slowest message: of one between nodes, if the group is on several."""
        pair = GroupShape(size=2, num_nodes=min(2, group.num_nodes), num_packages=min(2, group.num_packages))
        return Direct.latency_s(self, library, "all_gather", 2.0 * message_bytes, pair, bytes_per_s)

    def loads(
        self, fabric: Fabric, groups: NDArray[np.integer], library: Library, shares: Mapping[str, float] | None = None
    ) -> Pattern:
        return ring_loads(fabric, groups, shares or self.shares_on(library, fabric.machine), "ranks")


ALGORITHMS = (
    Shift(
        name=SHIFT,
        title="a block to the next rank of a ring",
        collectives=("all_gather", "reduce_scatter"),
        lowered=ring,
        laws=("direct",),
        in_plans=True,
        not_as_chunks="a step of a ring is a piece of a collective, which has no transfers of its own; allowed at "
        'fidelity chunk: context_by = "gather" or "heads"',
    ),
)
