"""Which algorithm and protocol RCCL and NCCL take: the smallest time by their own prediction, right or wrong.

Sources: ROCm/rccl and NVIDIA/nccl, src/graph/tuning.cc (ncclTopoTuneModel, ncclTopoGetAlgoTime). The libraries decide
by these formulas, so they say when a call changes its protocol; how long it then takes they do not say well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from simfrontier.collectives.ring_law import GroupShape, HopTimes
from simfrontier.schedule import RING, TREE, CollectiveKind

Protocol = Literal["simple", "ll"]
Way = str  # an algorithm and a protocol, as a library's file writes them
WAYS: Final[Mapping[Way, tuple[str, Protocol]]] = {
    f"{name}_{protocol}": (name, protocol) for name in (RING, TREE) for protocol in get_args(Protocol)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmTuning:
    """What a library believes of one way: start-up times, the part of the bus's rate that it reaches, on at most two
    nodes and on more, a cap on that rate likewise, and by which factor it corrects that, by size (none: not at all)."""

    hops: HopTimes
    rate_share: tuple[float, float]
    cap_bytes_per_s: tuple[float, float] = (math.inf, math.inf)
    corrections: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningModel:
    """The tuning model of a library.

    `bus_bytes_per_s`: what all channels of a device carry. `host_hop_s`: the least a hop inside a node costs in a ring
    over several nodes, with Simple `simple_host_factor` times as much. `all_reduce_turns`: edges between nodes that a
    ring all-reduce of k nodes counts as 2 (k - all_reduce_turns). `all_reduce_factor`: by which the latency of a Simple
    ring all-reduce over several nodes is multiplied. `simple_weight`: by which all latencies of Simple rings are
    multiplied (1: as in the source). `one_node_block_bytes`: in one node rings are taken, with LL for blocks up to this
    size, the two rounds of an all-reduce counted together (None: the model decides there too).
    """

    ways: Mapping[Way, AlgorithmTuning]
    bus_bytes_per_s: float
    host_hop_s: float
    simple_host_factor: float
    all_reduce_turns: int
    all_reduce_factor: float
    simple_weight: float
    one_node_block_bytes: float | None

    def protocol(self, algorithm: str, kind: CollectiveKind, message_bytes: float, group: GroupShape) -> Protocol:
        """The protocol of a ring or a tree."""
        simple, low = (way for way, (name, _) in WAYS.items() if name == algorithm)
        if low not in self.ways:
            return "simple"
        if algorithm == RING and group.num_nodes == 1 and self.one_node_block_bytes is not None:
            rounds = 2 if kind == "all_reduce" else 1
            return "ll" if rounds * message_bytes / group.size <= self.one_node_block_bytes else "simple"
        low_s, simple_s = (self.predicted_s(way, kind, message_bytes, group) for way in (low, simple))
        return "ll" if low_s < simple_s else "simple"

    def takes_tree(self, message_bytes: float, group: GroupShape) -> bool:
        """Whether an all-reduce goes by tree."""
        if group.num_nodes == 1 and self.one_node_block_bytes is not None:
            return False
        times = {way: self.predicted_s(way, "all_reduce", message_bytes, group) for way in WAYS if way in self.ways}
        return WAYS[min(times, key=times.__getitem__)][0] == TREE

    def predicted_s(self, way: Way, kind: CollectiveKind, message_bytes: float, group: GroupShape) -> float:
        """latency + S / bandwidth, as the library predicts it."""
        tuned, several = self.ways[way], group.num_nodes > 1
        rate = min(
            self.bus_bytes_per_s * tuned.rate_share[group.num_nodes > 2], tuned.cap_bytes_per_s[group.num_nodes > 2]
        )
        if tuned.corrections and several:
            rate *= tuned.corrections[_index(message_bytes, len(tuned.corrections))]
        name, protocol = WAYS[way]
        if name == TREE:
            return self._tree_s(tuned.hops, group) + message_bytes / (rate * 0.5)
        rounds = 2 if kind == "all_reduce" else 1
        latency_s = self._ring_s(tuned.hops, protocol == "simple", kind, group)
        return latency_s + message_bytes / (rate * group.size / (rounds * (group.size - 1)))

    def _ring_s(self, hops: HopTimes, simple: bool, kind: CollectiveKind, group: GroupShape) -> float:
        several, steps = group.num_nodes > 1, group.size - 1
        between = group.num_nodes - 1
        if kind == "all_reduce":
            steps, between = 2 * steps, 2 * (group.num_nodes - self.all_reduce_turns) if several else 0
        least_s = self.host_hop_s * (self.simple_host_factor if simple else 1.0) if several else 0.0
        latency_s = hops.base_s + (steps - between) * max(hops.in_node_s, least_s) + between * hops.between_nodes_s
        if simple and several and kind == "all_reduce":
            latency_s *= self.all_reduce_factor
        return latency_s * (self.simple_weight if simple else 1.0)

    def _tree_s(self, hops: HopTimes, group: GroupShape) -> float:
        depth, per_node = math.floor(math.log2(group.num_nodes)), group.size // group.num_nodes
        return hops.base_s + 2 * ((per_node - 1) * hops.in_node_s + depth * hops.between_nodes_s)


def _index(message_bytes: float, num: int) -> int:
    """floor(log2(S / 64)), within the table."""
    return min(max(int(math.log2(max(message_bytes, 64.0) / 64.0)), 0), num - 1)
