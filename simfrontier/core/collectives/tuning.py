"""Choice of algorithm and protocol by RCCL and NCCL: the one with the smallest time that the library itself predicts,
accurate or not.

Sources: ROCm/rccl and NVIDIA/nccl, src/graph/tuning.cc (ncclTopoTuneModel, ncclTopoGetAlgoTime). The libraries choose
by these formulas, so the formulas predict at which size a call changes its protocol; they do not predict the time of
the call well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Annotated, Final, Literal, get_args

from annotated_types import Ge, Le, Len

from simfrontier.base.io import SOURCED, Kind, Names, NotNegative, Positive, Text
from simfrontier.core.collectives.laws import GroupShape, HopTimes
from simfrontier.core.machine import maximum, minimum
from simfrontier.core.program import RING, TREE, CollectiveKind

Protocol = Literal["simple", "ll"]
Way = str  # an algorithm and a protocol, as a library's file writes them
WAYS: Final[Mapping[Way, tuple[str, Protocol]]] = {
    f"{name}_{protocol}": (name, protocol) for name in (RING, TREE) for protocol in get_args(Protocol)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmTuning(HopTimes):
    """Parameters of a library's prediction for one algorithm and protocol: start-up times, the share of the bus's rate
    that it achieves on at most two nodes and on more nodes (None: the same), and likewise caps on that rate."""

    rate_share: Annotated[Positive, SOURCED]
    rate_share_more_nodes: Annotated[Positive, SOURCED] | None = None
    cap_bytes_per_s: Annotated[Positive, SOURCED] = math.inf
    cap_more_nodes_bytes_per_s: Annotated[Positive, SOURCED] | None = None

    def bytes_per_s(self, bus_bytes_per_s: float, num_nodes: int) -> float:
        """Return the assumed rate, in bytes/s, in a group on `num_nodes` nodes."""
        share, cap = self.rate_share, self.cap_bytes_per_s
        if num_nodes > 2:
            share = share if self.rate_share_more_nodes is None else self.rate_share_more_nodes
            cap = cap if self.cap_more_nodes_bytes_per_s is None else self.cap_more_nodes_bytes_per_s
        return minimum(bus_bytes_per_s * share, cap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrections:
    """Correction factors on a rate over several nodes, by floor(log2(bytes / 64)); the last factor also holds for
    larger messages."""

    kind: Kind
    source: Text
    factors: Annotated[tuple[Positive, ...], Len(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningModel:
    """Tuning model of a library, by which it chooses the algorithm and protocol of a call.

    `bus_bytes_per_s`: total rate of all channels of a device. `host_hop_s`: minimum time of a hop inside a node in a
    ring over several nodes; with the Simple protocol, `simple_host_factor` times as much. `all_reduce_turns`: edges
    between nodes that a ring all-reduce of k nodes counts as 2 (k - all_reduce_turns). `all_reduce_factor`: factor on
    the latency of a Simple ring all-reduce over several nodes. `simple_weight`: factor on the latencies of all Simple
    rings (1: as in the source). `one_node_block_bytes`: groups on one node use rings, with LL for blocks up to this
    size, where the blocks of both rounds of an all-reduce are counted together (None: the model also decides for one
    node).
    """

    ways: Mapping[Annotated[Way, Names(*WAYS)], AlgorithmTuning]
    bus_bytes_per_s: Annotated[Positive, SOURCED]
    host_hop_s: Annotated[NotNegative, SOURCED]
    simple_host_factor: Annotated[Positive, SOURCED]
    all_reduce_turns: Annotated[int, Ge(0), Le(1), SOURCED]
    all_reduce_factor: Annotated[Positive, SOURCED]
    simple_weight: Annotated[Positive, SOURCED]
    one_node_block_bytes: Annotated[Positive, SOURCED] | None = None
    corrections: Mapping[Annotated[Way, Names(*WAYS)], Corrections] = field(default_factory=dict)

    def takes_ll(self, algorithm: str, kind: CollectiveKind, message_bytes: float, group: GroupShape) -> bool:
        """Return whether a ring or a tree uses the LL protocol rather than the Simple protocol."""
        simple, low = (way for way, (name, _) in WAYS.items() if name == algorithm)
        if low not in self.ways:
            return False
        if algorithm == RING and group.num_nodes == 1 and self.one_node_block_bytes is not None:
            rounds = 2 if kind == "all_reduce" else 1
            return rounds * message_bytes / group.size <= self.one_node_block_bytes
        low_s, simple_s = (self.predicted_s(way, kind, message_bytes, group) for way in (low, simple))
        return low_s < simple_s

    def takes_tree(self, message_bytes: float, group: GroupShape) -> bool:
        """Return whether an all-reduce uses trees rather than rings."""
        if group.num_nodes == 1 and self.one_node_block_bytes is not None:
            return False
        return self._least_s(TREE, message_bytes, group) < self._least_s(RING, message_bytes, group)

    def _least_s(self, algorithm: str, message_bytes: float, group: GroupShape) -> float:
        """Return the predicted time, in seconds, of an all-reduce by the faster protocol of an algorithm; infinite if
        the algorithm has no protocol."""
        ways = [way for way, (name, _) in WAYS.items() if name == algorithm and way in self.ways]
        return reduce(minimum, [self.predicted_s(way, "all_reduce", message_bytes, group) for way in ways], math.inf)

    def predicted_s(self, way: Way, kind: CollectiveKind, message_bytes: float, group: GroupShape) -> float:
        """Return the time, in seconds, that the library predicts for an algorithm and protocol: latency + S /
        bandwidth."""
        tuned, several = self.ways[way], group.num_nodes > 1
        rate = tuned.bytes_per_s(self.bus_bytes_per_s, group.num_nodes)
        if several and way in self.corrections:
            factors = self.corrections[way].factors
            rate *= factors[_index(message_bytes, len(factors))]
        name, protocol = WAYS[way]
        if name == TREE:
            return self._tree_s(tuned, group) + message_bytes / (rate * 0.5)
        rounds = 2 if kind == "all_reduce" else 1
        latency_s = self._ring_s(tuned, protocol == "simple", kind, group)
        return latency_s + message_bytes / (rate * group.size / (rounds * (group.size - 1)))

    def _ring_s(self, hops: HopTimes, simple: bool, kind: CollectiveKind, group: GroupShape) -> float:
        several, steps = group.num_nodes > 1, group.size - 1
        between = group.num_nodes - 1
        if kind == "all_reduce":
            steps, between = 2 * steps, 2 * (group.num_nodes - self.all_reduce_turns) if several else 0
        least_s = self.host_hop_s * (self.simple_host_factor if simple else 1.0) if several else 0.0
        latency_s = (
            hops.base_s + (steps - between) * maximum(hops.hop_in_node_s, least_s) + between * hops.hop_between_nodes_s
        )
        if simple and several and kind == "all_reduce":
            latency_s *= self.all_reduce_factor
        return latency_s * (self.simple_weight if simple else 1.0)

    def _tree_s(self, hops: HopTimes, group: GroupShape) -> float:
        depth, per_node = math.floor(math.log2(group.num_nodes)), group.size // group.num_nodes
        return hops.base_s + 2 * ((per_node - 1) * hops.hop_in_node_s + depth * hops.hop_between_nodes_s)


def _index(message_bytes: float, num: int) -> int:
    """Return the index floor(log2(S / 64)), clamped to the `num` entries of the table."""
    return min(max(int(math.log2(max(message_bytes, 64.0) / 64.0)), 0), num - 1)
