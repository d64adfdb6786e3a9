"""NVLS: an all-reduce that NVLink switches carry out. Every rank reads its part of the vector from all ranks through
the switches, which sum it on the way, and writes the sum to all ranks at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfrontier.core.collectives.algorithms.base import Algorithm
from simfrontier.core.collectives.algorithms.direct import direct, direct_loads
from simfrontier.core.collectives.laws import GroupShape
from simfrontier.core.network import Fabric, Pattern
from simfrontier.core.program import NVLS, CollectiveKind

if TYPE_CHECKING:
    from simfrontier.core.collectives.library import Library


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvls(Algorithm):
    """All-reduce in NVLink switches, inside a node. A rank sends its vector of S bytes to the switches once, and the
    sum of its part, S/n bytes; it receives as much. So the volume is S (n + 1) / n."""

    def sent_part(self, kind: CollectiveKind, num_ranks: int) -> Fraction:
        return Fraction(num_ranks + 1, num_ranks)

    def latency_s(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        assert library.in_node is not None, "`lacks` refuses it in a library without times inside a node"
        return library.in_node.nvls_s(self.sent(kind, group.size) * message_bytes, bytes_per_s)

    def loads(
        self, fabric: Fabric, groups: NDArray[np.integer], library: Library, shares: Mapping[str, float] | None = None
    ) -> Pattern:
        """Return the load pattern; on the links of a device it is that of direct messages of the same volume."""
        return direct_loads(fabric, groups, shares or self.shares_on(library, fabric.machine))

    def shares(self, library: Library) -> Mapping[str, float]:
        return {**library.shares, **library.ring_shares}

    def shares_ratio(self, library: Library) -> float:
        assert library.in_node is not None and library.in_node.nvls is not None, "as in `latency_s`"
        return library.in_node.nvls.rate_share

    def lacks(self, library: Library, kind: CollectiveKind) -> str:
        """Return "in_node.nvls" for a library that does not give its times, or NCCL's prediction of them."""
        inside = library.in_node
        return (
            "" if inside is not None and inside.nvls is not None and inside.tuning.nvls is not None else "in_node.nvls"
        )


ALGORITHMS = (
    Nvls(
        name=NVLS,
        title="an all-reduce in NVLink switches",
        collectives=(),
        lowered=direct,
        adds_in_place=False,
        laws=("in_node",),
        in_libraries=("all_reduce",),
        not_as_chunks="NVLink switches sum and copy on the way, which no single messages show; allowed at fidelity "
        'chunk: library.algorithms.all_reduce = "ring"',
    ),
)
