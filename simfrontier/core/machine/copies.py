"""The times of single copies between two devices, from measured point-to-point tables.

Inside a node a copy's rate is its link class's (`LinkClass.share`, `LinkClass.half_bytes`); here is what link classes
lack: pairs without a link of their own, copy engines, and messages between nodes, by library.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from simfrontier.base.io import SOURCED, NotNegative, Positive, Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """Messages between two nodes by one library.

    Many in flight, one of S bytes takes max(gap_s, (S + half_bytes) / bytes_per_s): small ones wait for each other,
    large ones for the wire, and one of half_bytes gets half of it. From `rendezvous_bytes` on, both ends agree first.
    """

    gap_s: Annotated[Positive, SOURCED]
    bytes_per_s: Annotated[Positive, SOURCED]
    half_bytes: Annotated[NotNegative, SOURCED]
    rendezvous_bytes: Annotated[Positive, SOURCED]

    def streamed_s(self, num_bytes: float) -> float:
        """Seconds per message of many in flight (osu_bw)."""
        return max(self.gap_s, (num_bytes + self.half_bytes) / self.bytes_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """Single copies on a machine, beside what its link classes say.

    `routed_share`: the share of its point-to-point rate that the narrowest link of a route of several links gives;
    `engine_bytes_per_s`: what a copy engine (SDMA) does at most; `in_node_sd`, `between_nodes_sd`: standard deviations
    of the natural logarithm of times around these laws, where they were not fitted. A message alone between two nodes
    takes `short_s` up to `short_bytes`; then, while eager, eager_s + S / eager_bytes_per_s; then rendezvous_s + S / the
    library's bytes_per_s.
    """

    routed_share: Annotated[Share, SOURCED]
    engine_bytes_per_s: Annotated[Positive, SOURCED]
    in_node_sd: Annotated[Positive, SOURCED]
    between_nodes_sd: Annotated[Positive, SOURCED]
    short_bytes: Annotated[Positive, SOURCED]
    short_s: Annotated[Positive, SOURCED]
    eager_s: Annotated[Positive, SOURCED]
    eager_bytes_per_s: Annotated[Positive, SOURCED]
    rendezvous_s: Annotated[Positive, SOURCED]
    libraries: Mapping[str, Messages] = field(hash=False)

    def alone_s(self, library: str, num_bytes: float) -> float:
        """Seconds of one message between two nodes, one way, by a library of `libraries` (osu_latency)."""
        messages = self.libraries[library]
        if num_bytes >= messages.rendezvous_bytes:
            return self.rendezvous_s + num_bytes / messages.bytes_per_s
        if num_bytes > self.short_bytes:
            return self.eager_s + num_bytes / self.eager_bytes_per_s
        return self.short_s
