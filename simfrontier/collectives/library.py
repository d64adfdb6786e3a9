"""Library models: which algorithm a collective library takes, and the start-up time that its messages cannot hide."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from simfrontier.collectives.calibration import CallTable, Group
from simfrontier.collectives.ring_law import (
    GroupShape,
    HopTimes,
    LowLatency,
    Pipeline,
    RingStep,
    low_latency_step,
    simple_step,
)
from simfrontier.collectives.tree_law import tree_passage_s, tree_waits_s
from simfrontier.collectives.tuning import Tuning
from simfrontier.collectives.two_level import TwoLevel
from simfrontier.errors import InputError
from simfrontier.machine import Provenance
from simfrontier.schedule.ir import CollectiveKind, Via

Algorithm = Literal["ring", "ring_twice", "tree", "direct", "halving", "two_level"]
RingOrder = Literal["links", "ranks"]
RING_SLICES, TREE_SLICES = 1, 32  # assumed, where a library's file does not say it
MOST_SLICES, MIB = 128, 2**20  # more parts than that change little, and cost time to simulate


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
class Residual:
    """How far a library's law is from measurements, as standard deviations of log time.

    `model_sd`: of kinds of calls, against measurements that were left out of the fit. Over several nodes that of the
    kind itself where `of_kind` has it, and at least `small_sd` for messages below `small_bytes`. `common_share` of the
    variance is the same for all sizes of message of one kind in one group. `run_sd`: of single calls, from one run to
    the next.
    """

    model_sd: float
    run_sd: float
    common_share: float = 1.0
    small_sd: float = 0.0
    small_bytes: float = 0.0
    of_kind: Mapping[CollectiveKind, float] = field(default_factory=dict)

    def sd(self, kind: CollectiveKind, num_bytes: float, num_nodes: int) -> float:
        """How far the law is off for a kind of call with messages of that size in a group on so many nodes."""
        if num_nodes == 1:
            return self.model_sd
        own = self.of_kind.get(kind, self.model_sd)
        return max(own, self.small_sd) if num_bytes < self.small_bytes else own


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A collective library: its algorithms' latencies, its channels, the share of each link class that its rings
    reach, and the bus bandwidth that its rings inside a node do not exceed, by group size (`ring_caps`).

    A ring passes blocks of c = S/n bytes through n - 1 hops; `ring_law` says how long a step takes with the Simple
    protocol and with LL. `tuning` says which of the two a call takes, and whether an all-reduce goes by tree, as the
    library decides it; a library without one takes what is faster. `ring_ll` and `tree_ll` are None in a library
    without LL, `tree` in one without trees. `residual`: how wrong all this was found to be (None: not known).

    `choices`: what may carry each kind of call. `ring_twice` is a reduce-scatter that is done as a ring all-reduce of
    the whole message, of which a rank keeps its part. `tables`: measured times of calls, which win over the law above.

    `ring_shares`: the share of link classes that rings reach, where it was measured apart from `link_shares`.

    `least_bytes`: of messages from this size on the law was fitted; what it says of smaller ones is a guess.
    `machines`: those whose measurements it was fitted to; none where the library's file does not say it.

    `ring_order`: rings follow the orders that the machine's links suggest, or the ranks' own in one channel. `paced`: a
    rank hands blocks on at the pace of its ring's slowest link, not as fast as its own links would; only single
    messages feel that, and that its channels have connections of their own. `in_flight`: how many messages may be under
    way on one connection (None: any number). `reduces_backwards`: rings that sum go against the order, from each rank
    to the one before it (only single messages know it: fluid loads are of the mirrored ring). `least_elements`: a ring
    cuts a block only into parts of at least so many elements. `ring_slices`, `tree_slices`: into how many parts a
    channel cuts a block, and 1 MiB of what it carries on a tree; over several nodes such a part has at least
    `tree_least_bytes`. `tree_chunk_bytes`: of a channel, that a hop of a tree between nodes waits for.
    `tree_fill_share`: what a part costs on a hop inside a node, of its time at the tree's rate, before the next hop has
    it; over several nodes.

    `halving`: exchanges in pairs, of half of the message with the neighbour, of a quarter two ranks further and so on,
    each as a direct message. `two_level`: the two libraries behind a call of that algorithm.
    """

    name: str
    title: str
    num_channels: int
    units_per_channel: float
    ring: HopTimes
    pipeline: Pipeline
    ring_ll: LowLatency | None
    link_shares: Mapping[str, float]
    ring_caps: Mapping[tuple[int, int], float]
    tree: HopTimes | None
    tree_ll: HopTimes | None
    tree_ratio: float
    direct: HopTimes
    sources: tuple[Provenance, ...]
    choices: Mapping[CollectiveKind, tuple[Algorithm, ...]]
    tuning: Tuning | None = None
    residual: Residual | None = None
    ring_shares: Mapping[str, float] = field(default_factory=dict)
    machines: tuple[str, ...] = ()
    tables: Mapping[Group, CallTable] = field(default_factory=dict)
    ring_order: RingOrder = "links"
    paced: bool = True
    in_flight: int | None = None
    reduces_backwards: bool = False
    least_elements: int = 1
    ring_slices: int = RING_SLICES
    tree_slices: int = TREE_SLICES
    tree_least_bytes: float = 1.0
    tree_chunk_bytes: float = 0.0
    tree_fill_share: float = 0.0
    least_bytes: float = 0.0
    two_level: TwoLevel | None = None

    def provenance(self) -> tuple[Provenance, ...]:
        """Every number of the library with its source."""
        return self.sources

    def shares(self, algorithm: Algorithm, point_to_point: Mapping[str, float]) -> Mapping[str, float]:
        """Achieved share by link class, given what a plain copy achieves; a tree reaches less than a ring.

        `ring_shares` are of rings only: what a tree reaches is known as a part of the other shares (`tree_ratio`).
        """
        ratio = self.tree_ratio if algorithm == "tree" else 1.0
        known = {**self.link_shares, **self.ring_shares} if algorithm in ("ring", "ring_twice") else self.link_shares
        return {name: ratio * known.get(name, share) for name, share in point_to_point.items()}

    def cap_bytes_per_s(self, algorithm: Algorithm, group: GroupShape) -> float:
        """What a rank can send at most by this algorithm, whatever the links: known for rings inside a node, and for
        two levels, which follow one another."""
        if algorithm == "two_level":
            assert self.two_level is not None, "`algorithms` names no levels in a library of one"
            return self.two_level.cap_bytes_per_s(group)
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

    def taken(
        self, kind: CollectiveKind, quantised: bool, via: Via, message_bytes: float, group: GroupShape
    ) -> tuple[Algorithm, ...]:
        """What may carry a call with its largest message, less what the library's own rule of trees excludes; of what
        is left the fastest is taken. Raises InputError as `algorithms`."""
        options = self.algorithms(kind, quantised, via)
        others = tuple(option for option in options if option != "tree")
        if self.tuning is None or others in ((), options):
            return options
        return ("tree",) if self.tuning.takes_tree(message_bytes, group) else others

    def slices(self, algorithm: Algorithm, channel_bytes: float, num_nodes: int) -> int:
        """Into how many parts, that follow one another, a channel cuts its blocks, or what it carries on a tree.

        A pipeline with an overhead for every part is fastest with a number of parts that grows as the square root of
        the bytes: here from `tree_slices` for 1 MiB on, in whole rounds of `in_flight`, up to about 128; over several
        nodes of `tree_least_bytes` at least, so that those in flight fill the links while hops are started up.
        """
        match algorithm:
            case "tree":
                parts = min(MOST_SLICES, self.tree_slices * math.sqrt(channel_bytes / MIB))
                if num_nodes > 1:
                    parts = min(parts, channel_bytes / self.tree_least_bytes)
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
                rounds = _rounds(kind, algorithm)
                step = self.ring_step(kind, message_bytes, group, bytes_per_s, rounds)
                return step.base_s + rounds * (group.size - 1) * step.extra_s
            case "tree":
                return self._tree_latency(message_bytes, group, bytes_per_s)
            case "direct":
                return self._direct_latency(group)
            case "two_level":
                assert self.two_level is not None, "`algorithms` names no levels in a library of one"
                return self.two_level.latency_s(kind, message_bytes, group)
            case "halving":
                raise AssertionError("each round of it is a direct exchange in pairs, at a rate of its own")

    def least_latency_s(
        self, algorithm: Algorithm, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        """No more than `latency_s` at that rate and at any above it.

        Of rings and direct messages it is longer, or shorter, the faster a rank sends, by algorithm and protocol: the
        least is at one of the ends. A tree's is least in between, where it waits for the hops that nothing hides.
        """
        rates = (bytes_per_s, math.inf)
        if algorithm != "tree":
            return min([self.latency_s(algorithm, kind, message_bytes, group, rate) for rate in rates])
        hops, _ = self._tree_hops(message_bytes, group, math.inf)
        in_node_s = 2 * (group.size // group.num_nodes - 1) * hops.in_node_s
        return hops.base_s + in_node_s + tree_waits_s(group.tree_depth, hops.between_nodes_s)

    def ring_step(
        self, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float, rounds: int
    ) -> RingStep:
        """One step of a ring with a message of S bytes, by the protocol that the library takes."""
        block = message_bytes / group.size
        simple = simple_step(self.ring, self.pipeline, block, group, bytes_per_s)
        if self.ring_ll is None:
            return simple
        low = low_latency_step(self.ring_ll, block, group, bytes_per_s)
        if self.tuning is not None:
            called: CollectiveKind = "all_reduce" if rounds == 2 else kind
            return low if self.tuning.protocol(False, called, message_bytes, group) == "ll" else simple
        hops = rounds * (group.size - 1)
        return min(low, simple, key=lambda step: step.base_s + hops * step.extra_s)

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
                step = self.ring_step(kind, message_bytes, group, bytes_per_s, rounds)
                block = message_bytes / group.size
                rest_s = block / bytes_per_s - step.share * block / step.bytes_per_s
                crossed_s = group.ring_crossed_s(step.inside_s, step.extra_s, rounds)
                return StepLaw(
                    base_s=step.base_s,
                    in_node_s=step.inside_s + rest_s,
                    between_nodes_s=crossed_s + rest_s,
                    forwarded_share=step.share,
                    bytes_per_s=step.bytes_per_s / num_orders if self.paced else math.inf,
                    is_added=not self.paced,
                )
            case "tree":
                hops, rate_share = self._tree_hops(message_bytes, group, bytes_per_s)
                slower_s = message_bytes / bytes_per_s * (1.0 / rate_share - 1.0)  # before its messages, as `latency_s`
                return _added(replace(hops, base_s=hops.base_s + slower_s))
            case "direct":
                return _added(self.direct)
            case "halving" | "two_level":
                raise AssertionError("plans do not go by halving, and two levels are not lowered to messages")

    def _tree_latency(self, message_bytes: float, group: GroupShape, bytes_per_s: float) -> float:
        hops, rate_share = self._tree_hops(message_bytes, group, bytes_per_s)
        volume_s = message_bytes / bytes_per_s
        in_node = 2 * (group.size // group.num_nodes - 1)
        latency_s = hops.base_s + in_node * hops.in_node_s + volume_s * (1.0 / rate_share - 1.0)
        if group.num_nodes > 1:
            parts = self.slices("tree", message_bytes / self.num_channels, group.num_nodes)
            latency_s += in_node * self.tree_fill_share * volume_s / parts
        return latency_s + tree_passage_s(group.tree_depth, hops.between_nodes_s, volume_s) - volume_s

    def _tree_hops(self, message_bytes: float, group: GroupShape, bytes_per_s: float) -> tuple[HopTimes, float]:
        """The hops of the protocol that a tree takes, and the share of its rate that the protocol leaves.

        With Simple a hop between nodes is passed when a chunk is there: all channels' chunks, or the whole message if
        it is smaller, at the tree's rate, and the start-up. Hops inside a node, over faster links, are start-up only.
        """
        assert self.tree is not None, "`algorithms` names no tree in a library without one"
        low, ring, tuning = self.tree_ll, self.ring_ll, self.tuning
        if low and ring and tuning and tuning.protocol(True, "all_reduce", message_bytes, group) == "ll":
            return low, ring.rate_share
        chunk_s = min(message_bytes, self.num_channels * self.tree_chunk_bytes) / bytes_per_s
        return replace(self.tree, between_nodes_s=self.tree.between_nodes_s + chunk_s), 1.0

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
