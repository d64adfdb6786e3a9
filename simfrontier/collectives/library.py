"""Library models: which algorithm a collective library takes, and the start-up time that its messages cannot hide."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from simfrontier.collectives.calibration import CallTable, Group
from simfrontier.errors import InputError
from simfrontier.machine import Provenance
from simfrontier.schedule.ir import CollectiveKind, Via

Algorithm = Literal["ring", "ring_twice", "tree", "direct"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShape:
    """What a library model needs of a group: its ranks, the nodes they are on (equally many on each), and packages."""

    size: int
    num_nodes: int
    num_packages: int

    @property
    def ring_hops(self) -> tuple[int, int]:
        """Hops of one block around the ring, (inside nodes, between nodes): n - 1 in all, k - 1 of them between
        nodes."""
        between = self.num_nodes - 1
        return self.size - 1 - between, between


@dataclass(frozen=True, slots=True, kw_only=True)
class HopTimes:
    """Start-up time of an algorithm and of its hops, in seconds."""

    base_s: float
    in_node_s: float
    between_nodes_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A collective library: its algorithms' latencies, its channels, the share of each link class that its rings
    reach, and the bus bandwidth that its rings inside a node do not exceed, by group size (`ring_caps`).

    A ring passes blocks of c = S/n bytes through n - 1 hops. With the Simple protocol a step costs
    max(c/B, a + f c/B): latency and bandwidth hide each other. With LL it costs a_LL + c/B_LL. The cheaper one is
    taken; `ring_ll` is None in a library without LL, `tree` in one without trees.

    `choices`: what may carry each kind of call. `ring_twice` is a reduce-scatter that is done as a ring all-reduce of
    the whole message, of which a rank keeps its part. `tables`: measured times of calls, which win over the law above.
    """

    name: str
    title: str
    num_channels: int
    units_per_channel: float
    ring: HopTimes
    forwarded_share: float
    ring_ll: HopTimes | None
    ll_bytes_per_s: float
    link_shares: Mapping[str, float]
    ring_caps: Mapping[tuple[int, int], float]
    tree: HopTimes | None
    tree_ratio: float
    direct: HopTimes
    sources: tuple[Provenance, ...]
    choices: Mapping[CollectiveKind, tuple[Algorithm, ...]]
    tables: Mapping[Group, CallTable] = field(default_factory=dict)

    def provenance(self) -> tuple[Provenance, ...]:
        """Every number of the library with its source."""
        return self.sources

    def shares(self, algorithm: Algorithm, point_to_point: Mapping[str, float]) -> Mapping[str, float]:
        """Achieved share by link class, given what a plain copy achieves; a tree reaches less than a ring."""
        ratio = self.tree_ratio if algorithm == "tree" else 1.0
        return {name: ratio * self.link_shares.get(name, share) for name, share in point_to_point.items()}

    def cap_bytes_per_s(self, algorithm: Algorithm, group: GroupShape) -> float:
        """What a rank can send at most by this algorithm, whatever the links: known for rings inside a node."""
        if algorithm == "direct" or group.num_nodes > 1:
            return math.inf
        cap = self.ring_caps.get((group.size, group.num_packages), math.inf)
        return cap * self.tree_ratio if algorithm == "tree" else cap

    def algorithms(self, kind: CollectiveKind, quantised: bool, via: Via) -> tuple[Algorithm, ...]:
        """What may carry a collective: the library's choices, unless the schedule says `via`, or what is coded cannot
        be summed on the way. Raises InputError for a tree where the library has none."""
        if kind == "all_to_all" or (kind == "reduce_scatter" and quantised):
            return ("direct",)
        if via == "library":
            return self.choices[kind]
        if via == "tree" and self.tree is None:
            raise InputError(
                f"{kind} by tree: library {self.name} has no tree, allowed: {', '.join(self.choices[kind])}"
            )
        return (via,)

    def table(self, call: CollectiveKind | None, group: GroupShape) -> CallTable | None:
        """The measured times of a call (None: of no call of the library) in a group of that shape, if there are any."""
        if call is None:
            return None
        return self.tables.get((call, group.size, group.num_nodes, group.num_packages))

    def latency_s(
        self, algorithm: Algorithm, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        """Time of one call beyond volume / bytes_per_s, for a message of S bytes and the rate at which a rank sends
        alone."""
        match algorithm:
            case "ring" | "ring_twice":
                twice = kind == "all_reduce" or algorithm == "ring_twice"
                return self._ring_latency(message_bytes, group, bytes_per_s, rounds=2 if twice else 1)
            case "tree":
                return self._tree_latency(group)
            case "direct":
                return self._direct_latency(group)

    def _ring_latency(self, message_bytes: float, group: GroupShape, bytes_per_s: float, rounds: int) -> float:
        block_s = message_bytes / group.size / bytes_per_s
        inside, between = group.ring_hops
        hidden = (1.0 - self.forwarded_share) * block_s
        simple = inside * max(0.0, self.ring.in_node_s - hidden) + between * max(
            0.0, self.ring.between_nodes_s - hidden
        )
        by_simple = self.ring.base_s + rounds * simple
        if self.ring_ll is None:
            return by_simple
        low = inside * self.ring_ll.in_node_s + between * self.ring_ll.between_nodes_s
        low += (inside + between) * (message_bytes / group.size / self.ll_bytes_per_s - block_s)
        return min(by_simple, self.ring_ll.base_s + rounds * max(low, 0.0))

    def _tree_latency(self, group: GroupShape) -> float:
        assert self.tree is not None, "`algorithms` names no tree in a library without one"
        per_node = group.size // group.num_nodes
        depth = math.floor(math.log2(group.num_nodes))
        return self.tree.base_s + 2 * ((per_node - 1) * self.tree.in_node_s + depth * self.tree.between_nodes_s)

    def _direct_latency(self, group: GroupShape) -> float:
        near = group.size // group.num_nodes - 1
        far = group.size - 1 - near
        rounds_near, rounds_far = -(-near // self.num_channels), -(-far // self.num_channels)
        return self.direct.base_s + rounds_near * self.direct.in_node_s + rounds_far * self.direct.between_nodes_s
