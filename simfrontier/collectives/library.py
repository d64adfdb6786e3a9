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
RingOrder = Literal["links", "ranks"]
RING_SLICES, TREE_SLICES = 1, 32  # assumed, where a library's file does not say it
MOST_SLICES, MIB = 128, 2**20  # more parts than that change little, and cost time to simulate


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

    def ring_crossed_s(self, inside_s: float, between_s: float, rounds: int) -> float:
        """What one edge between nodes has to cost, so that a closed ring's slowest block takes the sum of `ring_hops`.

        A block goes rounds * (n - 1) edges on, of which as many as X lie between nodes: all k of every full circle, and
        of the r edges left over one in every n/k, rounded up.
        """
        near, far = self.ring_hops
        circles, left = divmod(rounds * (self.size - 1), self.size)
        crossed = circles * self.num_nodes + min(self.num_nodes, -(-left * self.num_nodes // self.size))
        if self.num_nodes == 1 or not crossed:
            return between_s
        walked = rounds * (self.size - 1) - crossed
        return (rounds * (near * inside_s + far * between_s) - walked * inside_s) / crossed


@dataclass(frozen=True, slots=True, kw_only=True)
class HopTimes:
    """Start-up time of an algorithm and of its hops, in seconds."""

    base_s: float
    in_node_s: float
    between_nodes_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLaw:
    """How long a single message of a lowered call takes beside its links (fidelity `chunk`).

    A call starts after `base_s`. A message of c bytes arrives at the earliest max(c/B, a + f c/B) after it was sent, a
    being the hop's start-up inside a node or between nodes, f `forwarded_share`, B `bytes_per_s` (infinite where
    messages go as fast as their links); and never before its links have carried it, plus a where `is_added`.
    """

    base_s: float
    in_node_s: float
    between_nodes_s: float
    forwarded_share: float
    bytes_per_s: float
    is_added: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A collective library: its algorithms' latencies, its channels, the share of each link class that its rings
    reach, and the bus bandwidth that its rings inside a node do not exceed, by group size (`ring_caps`).

    A ring passes blocks of c = S/n bytes through n - 1 hops. With the Simple protocol a step costs
    max(c/B, a + f c/B): latency and bandwidth hide each other. With LL it costs a_LL + c/B_LL. The cheaper one is
    taken; `ring_ll` is None in a library without LL, `tree` in one without trees.

    `choices`: what may carry each kind of call. `ring_twice` is a reduce-scatter that is done as a ring all-reduce of
    the whole message, of which a rank keeps its part. `tables`: measured times of calls, which win over the law above.

    `ring_order`: rings follow the orders that the machine's links suggest, or the ranks' own in one channel. `paced`: a
    rank hands blocks on at the pace of its ring's slowest link, not as fast as its own links would; only single
    messages feel that, and that its channels have connections of their own. `in_flight`: how many messages may be under
    way on one connection (None: any number). `reduces_backwards`: rings that sum go against the order, from each rank
    to the one before it (only single messages know it: fluid loads are of the mirrored ring). `least_elements`: a ring
    cuts a block only into parts of at least so many elements. `ring_slices`, `tree_slices`: into how many parts a
    channel cuts a block, and 1 MiB of what it carries on a tree.
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
    ring_order: RingOrder = "links"
    paced: bool = True
    in_flight: int | None = None
    reduces_backwards: bool = False
    least_elements: int = 1
    ring_slices: int = RING_SLICES
    tree_slices: int = TREE_SLICES

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

    def slices(self, algorithm: Algorithm, channel_bytes: float) -> int:
        """Into how many parts, that follow one another, a channel cuts its blocks, or what it carries on a tree.

        A pipeline with an overhead for every part is fastest with a number of parts that grows as the square root of
        the bytes: here from `tree_slices` for 1 MiB on, in whole rounds of `in_flight`, up to about 128.
        """
        match algorithm:
            case "tree":
                parts = min(MOST_SLICES, self.tree_slices * math.sqrt(channel_bytes / MIB))
                return max(1, round(parts / (self.in_flight or 1))) * (self.in_flight or 1)
            case "direct":
                return 1
            case _:
                return self.ring_slices

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
                simple, low = self._ring_latencies(message_bytes, group, bytes_per_s, _rounds(kind, algorithm))
                return min(simple, low)
            case "tree":
                return self._tree_latency(group)
            case "direct":
                return self._direct_latency(group)

    def step_law(
        self,
        algorithm: Algorithm,
        kind: CollectiveKind,
        message_bytes: float,
        group: GroupShape,
        bytes_per_s: float,
        num_orders: int,
    ) -> StepLaw:
        """The law of a call's single messages, as `latency_s` has it; `num_orders`: rings that share `bytes_per_s`.

        Alone, a ring's slowest block then takes what `latency_s` and the volume say: see `GroupShape.ring_crossed_s`.
        """
        match algorithm:
            case "ring" | "ring_twice":
                rounds = _rounds(kind, algorithm)
                simple, low = self._ring_latencies(message_bytes, group, bytes_per_s, rounds)
                if self.ring_ll is not None and low < simple:
                    hops, share, rate, hidden = self.ring_ll, 1.0, self.ll_bytes_per_s, 0.0
                else:
                    share, rate = self.forwarded_share, bytes_per_s
                    hops, hidden = self.ring, (1.0 - share) * message_bytes / group.size / rate
                inside, between = max(0.0, hops.in_node_s - hidden), max(0.0, hops.between_nodes_s - hidden)
                crossed = group.ring_crossed_s(inside, between, rounds)
                return StepLaw(
                    base_s=hops.base_s,
                    in_node_s=hops.in_node_s,
                    between_nodes_s=crossed + hidden if crossed > 0.0 else hops.between_nodes_s,
                    forwarded_share=share,
                    bytes_per_s=rate / num_orders if self.paced else math.inf,
                    is_added=not self.paced,
                )
            case "tree":
                assert self.tree is not None, "`algorithms` names no tree in a library without one"
                return _added(self.tree)
            case "direct":
                return _added(self.direct)

    def _ring_latencies(
        self, message_bytes: float, group: GroupShape, bytes_per_s: float, rounds: int
    ) -> tuple[float, float]:
        """By the Simple protocol and by LL, infinite where there is none."""
        block_s = message_bytes / group.size / bytes_per_s
        inside, between = group.ring_hops
        hidden = (1.0 - self.forwarded_share) * block_s
        simple = inside * max(0.0, self.ring.in_node_s - hidden) + between * max(
            0.0, self.ring.between_nodes_s - hidden
        )
        by_simple = self.ring.base_s + rounds * simple
        if self.ring_ll is None:
            return by_simple, math.inf
        low = inside * self.ring_ll.in_node_s + between * self.ring_ll.between_nodes_s
        low += (inside + between) * (message_bytes / group.size / self.ll_bytes_per_s - block_s)
        return by_simple, self.ring_ll.base_s + rounds * max(low, 0.0)

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


def _rounds(kind: CollectiveKind, algorithm: Algorithm) -> int:
    """How often a ring's blocks go around."""
    return 2 if kind == "all_reduce" or algorithm == "ring_twice" else 1


def _added(hops: HopTimes) -> StepLaw:
    """Messages that go as fast as their links, each with its start-up on top."""
    return StepLaw(
        base_s=hops.base_s,
        in_node_s=hops.in_node_s,
        between_nodes_s=hops.between_nodes_s,
        forwarded_share=0.0,
        bytes_per_s=math.inf,
        is_added=True,
    )
