"""How long a single message of a lowered call takes beside its links."""

from __future__ import annotations

import math
from dataclasses import dataclass

from simfrontier.core.collectives.ring_law import HopTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLaw:
    """How long a single message of a lowered call takes beside its links (fidelity `chunk`).

    A call starts after `base_s`. A message of c bytes arrives at the earliest max(c/B, a + f c/B) after it was sent, a
    being the hop's start-up inside a node or between nodes, f `forwarded_share`, B `bytes_per_s` (infinite where
    messages go as fast as their links); and never before its links have carried it, plus a where `is_added`.
    """

    base_s: float
    hop_in_node_s: float
    hop_between_nodes_s: float
    forwarded_share: float
    bytes_per_s: float
    is_added: bool


def added(hops: HopTimes) -> StepLaw:
    """The law of messages that go as fast as their links, each with its start-up on top."""
    return StepLaw(
        base_s=hops.base_s,
        hop_in_node_s=hops.hop_in_node_s,
        hop_between_nodes_s=hops.hop_between_nodes_s,
        forwarded_share=0.0,
        bytes_per_s=math.inf,
        is_added=True,
    )
