"""Time laws of collective algorithms: rings (protocols Simple and LL) and double binary trees."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Final, TypeVar

from annotated_types import Ge, Le

from simfrontier.base.io import SOURCED, NotNegative, Part, Positive, Share
from simfrontier.base.limits import COUNT
from simfrontier.core.machine import exp, log1p, maximum, minimum, where

SLICES: Final = 4_096  # messages of 4 GiB in slices of 1 MiB

CHANNELS: Final = 128  # NCCL's MAXCHANNELS is 64, RCCL's 128

Slices = Annotated[int, Ge(1), Le(SLICES), SOURCED]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShape:
    """Shape of a group: the number of its ranks, of its nodes (with equally many ranks on each), and of its
    packages."""

    size: int
    num_nodes: int
    num_packages: int

    @property
    def ring_edges(self) -> tuple[int, int]:
        """Number of edges of the closed ring (inside nodes, between nodes): n edges in total, one edge between nodes
        for each of k nodes."""
        between = self.num_nodes if self.num_nodes > 1 else 0
        return self.size - between, between

    @property
    def tree_depth(self) -> int:
        """Number of edges from the root to the farthest leaf of the binary trees over the nodes that `double_tree`
        returns."""
        return (self.num_nodes - 1).bit_length()

    def ring_mean(self, inside: float, between: float) -> float:
        """Return the mean over the edges of the closed ring, given the values for an edge inside a node and between
        nodes."""
        near, far = self.ring_edges
        return (near * inside + far * between) / self.size

    def ring_crossed_s(self, inside_s: float, mean_s: float, rounds: int) -> float:
        """Return the time of an edge between nodes for which the slowest block of a closed ring takes `mean_s` on
        average over its rounds * (n - 1) hops, if an edge inside a node takes `inside_s`.

        The slowest block is the one that crosses between nodes most often: k times per full circle, and on one in every
        n/k of the r remaining edges, rounded up.
        """
        hops = rounds * (self.size - 1)
        circles, left = divmod(hops, self.size)
        crossed = circles * self.num_nodes + min(self.num_nodes, -(-left * self.num_nodes // self.size))
        if self.num_nodes == 1 or not crossed:
            return mean_s
        return (hops * mean_s - (hops - crossed) * inside_s) / crossed


@dataclass(frozen=True, slots=True, kw_only=True)
class HopTimes:
    """Start-up times of an algorithm: once per call, and per hop; in seconds."""

    base_s: Annotated[NotNegative, SOURCED]
    hop_in_node_s: Annotated[NotNegative, SOURCED]
    hop_between_nodes_s: Annotated[NotNegative, SOURCED]


@dataclass(frozen=True, slots=True, kw_only=True)
class RingTimes(HopTimes):
    """Parameters of rings. `forwarded_share`: fraction of a block that must arrive at a rank before it starts to
    forward the block.

    `sharpness`: exponent p of the smooth maximum (x^p + y^p)^(1/p) of two times, as channels, links and nodes differ
    from each other; with infinite p it is the maximum. `slices`: number of parts into which a channel cuts a block,
    each of at least `least_elements` elements.
    """

    forwarded_share: Annotated[Part, SOURCED]
    sharpness: Annotated[float, Ge(1), Le(1e6), SOURCED] = math.inf
    slices: Slices = 1
    least_elements: Annotated[int, Ge(1), Le(COUNT.most), SOURCED] = 1

    def longer(self, one_s: float, other_s: float) -> float:
        """Return the longer of two times, smoothed where they are similar."""
        most, least = maximum(one_s, other_s), minimum(one_s, other_s)
        ratio = least / where(most > 0.0, most, 1.0)
        return most * exp(log1p(ratio**self.sharpness) / self.sharpness)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeTimes(HopTimes):
    """Parameters of trees, whose rate is `bandwidth_ratio` times the rate of a ring.

    `slices`: number of successive parts into which a channel cuts 1 MiB; over several nodes a part has at least
    `least_slice_bytes`. `chunk_bytes`: bytes per channel that must arrive before a hop between nodes ends.
    `fill_share`: over several nodes, the time that a part takes on a hop inside a node before the next hop starts, as a
    fraction of its transfer time at the tree's rate.
    """

    bandwidth_ratio: Annotated[Share, SOURCED]
    slices: Slices = 32  # assumed, where the file does not say it
    chunk_bytes: Annotated[Positive, SOURCED] = 0.0  # without it hops wait for no chunk
    least_slice_bytes: Annotated[Positive, SOURCED] = 1.0
    fill_share: Annotated[Part, SOURCED] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LowLatency(HopTimes):
    """Parameters of a low-latency protocol, LL or LL128: every 8 bytes (LL128: every 120) carry a flag, so the rate is
    `rate_share` of a ring's rate. `forwarded_share`: as of rings; 1 where a rank forwards whole blocks, as short ones.

    The protocol uses one channel for every `bytes_per_channel` of a block, at most `num_channels`. Each channel's
    message adds `channel_s` to a hop between nodes, since one host thread submits the messages of all channels to the
    network.
    """

    rate_share: Annotated[Share, SOURCED]
    forwarded_share: Annotated[Part, SOURCED] = 1.0
    channel_s: Annotated[NotNegative, SOURCED] = 0.0
    bytes_per_channel: Annotated[Positive, SOURCED] = math.inf
    num_channels: Annotated[int, Ge(1), Le(CHANNELS), SOURCED] = 1

    def hop_of_block_s(self, block_bytes: float) -> float:
        """Return the start-up time, in seconds, of a hop between nodes with a block of that size."""
        channels = minimum(maximum(block_bytes / self.bytes_per_channel, 1.0), self.num_channels)
        return self.hop_between_nodes_s + channels * self.channel_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RingStep:
    """Timing of one step of a ring, in which each rank forwards a block: the time in addition to block / rate.

    `extra_s` is this time for the closed ring, around which all n blocks move at the same time; `inside_s` is this time
    for an edge inside a node. The fraction `share` of a block must arrive, at `bytes_per_s`, before the next edge
    starts.
    """

    base_s: float
    extra_s: float
    inside_s: float
    share: float
    bytes_per_s: float


Times = TypeVar("Times", HopTimes, RingStep)


def either(condition: bool, one: Times, other: Times, form: type[Times]) -> Times:
    """Return `one` where the condition holds and `other` elsewhere; if the condition is an array, field by field as an
    object of the class `form`."""
    if isinstance(condition, bool):
        return one if condition else other
    names = [each.name for each in fields(form)]
    return form(**{name: where(condition, getattr(one, name), getattr(other, name)) for name in names})


def simple_step(ring: RingTimes, block_bytes: float, group: GroupShape, rate: float) -> RingStep:
    """Return the timing of a ring step with the Simple protocol: max(c/B, a + f c/B) as a smooth maximum, with block
    size c, rate B, start-up time a and forwarded share f.

    A ring of n ranks moves n blocks around at the same time. A step takes the longer of two times: the time of a block
    on the slowest link, c/B, and the mean time of a block per edge, which is the start-up plus the transfer of the
    fraction f that must arrive before the next edge starts. So latency and bandwidth hide each other.
    """
    block_s, hidden = block_bytes / rate, (1.0 - ring.forwarded_share) * block_bytes / rate
    mean_s = group.ring_mean(ring.hop_in_node_s, ring.hop_between_nodes_s)
    extra_s = ring.longer(block_s, mean_s + block_s - hidden) - block_s
    return RingStep(
        base_s=ring.base_s,
        extra_s=extra_s,
        inside_s=extra_s if group.num_nodes == 1 else maximum(0.0, ring.hop_in_node_s - hidden),
        share=ring.forwarded_share,
        bytes_per_s=rate,
    )


def low_latency_step(low: LowLatency, block_bytes: float, group: GroupShape, rate: float) -> RingStep:
    """Return the timing of a ring step with a low-latency protocol: max(c/B', a + h channels + f c/B'), with block size
    c, rate B' = share * B, start-up time a, time h per channel and forwarded share f."""
    between_s = low.hop_of_block_s(block_bytes)
    slower_s = block_bytes / rate * (1.0 / low.rate_share - 1.0)
    hidden_s = (1.0 - low.forwarded_share) * block_bytes / (rate * low.rate_share)
    mean_s = group.ring_mean(low.hop_in_node_s, between_s)
    return RingStep(
        base_s=low.base_s,
        extra_s=maximum(0.0, mean_s - hidden_s) + slower_s,
        inside_s=maximum(0.0, low.hop_in_node_s - hidden_s) + slower_s,
        share=low.forwarded_share,
        bytes_per_s=rate * low.rate_share,
    )


def tree_passage_s(depth: int, hop_s: float, volume_s: float) -> float:
    """Return the time from the first byte sent to the last byte received, for trees with a height of `depth` hops
    between nodes (d; `hop_s`: a).

    `volume_s`: time V that the busiest link takes for all its bytes, of which one half goes up and the other half goes
    down.

    If hops dominate, links are idle between the two halves: the last part waits until the first half is sent, and then
    goes up and down, 2 d hops. If the halves dominate, the busiest link is never idle: it begins when the first part
    has come up to it, and the last part that it sends still has to move down from there. The busiest node of a tree has
    two children and a parent, and is d - 2 hops above the lowest such node, so that d - 2 hops come before and d - 1
    after; in a tree of one or two hops the busiest node is next to the leaves.

        T = max(2 d a + V/2, max(1, 2 d - 3) a + V)
    """
    return maximum(2 * depth * hop_s + volume_s / 2, tree_waits_s(depth, hop_s) + volume_s)


def tree_waits_s(depth: int, hop_s: float) -> float:
    """Return the time of the hops that not even a continuously busy link can hide."""
    return max(1, 2 * depth - 3) * hop_s if depth else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLaw:
    """Time law of the single messages of a lowered collective, in addition to the time on links (fidelity `chunk`).

    A call starts after `base_s`. A message of c bytes arrives at the earliest max(c/B, a + f c/B) after it was sent,
    where a is the start-up time of a hop inside a node or between nodes, f is `forwarded_share`, and B is `bytes_per_s`
    (infinite if messages are as fast as their links). It never arrives before its links have carried it, plus a if
    `is_added`.
    """

    base_s: float
    hop_in_node_s: float
    hop_between_nodes_s: float
    forwarded_share: float
    bytes_per_s: float
    is_added: bool


def added(hops: HopTimes) -> StepLaw:
    """Return the time law of messages that are as fast as their links, with the start-up time of a hop added to each
    message."""
    return StepLaw(
        base_s=hops.base_s,
        hop_in_node_s=hops.hop_in_node_s,
        hop_between_nodes_s=hops.hop_between_nodes_s,
        forwarded_share=0.0,
        bytes_per_s=math.inf,
        is_added=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRates:
    """Rates, in bytes/s, at which a rank sends in each of the two calls while nothing else runs; between nodes all
    ranks of a node send at the same time."""

    between: float
    inside: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatcher:
    """Parameters of a dispatcher of experts' rows. `base_s`: start-up of a call; `num_units`: compute units that its
    kernels occupy, each of which sends `unit_bytes_per_s` inside a node; `shares`: of the nominal bandwidth of link
    classes that it reaches; `in_turn`: messages inside nodes follow those between nodes instead of overlapping."""

    base_s: Annotated[NotNegative, SOURCED]
    num_units: Annotated[int, Ge(1), Le(CHANNELS), SOURCED]
    unit_bytes_per_s: Annotated[Positive, SOURCED]
    shares: Mapping[str, Annotated[Share, SOURCED]] = field(default_factory=dict)
    in_turn: bool = False

    @property
    def bytes_per_s(self) -> float:
        """The highest rate at which a device sends inside a node."""
        return self.num_units * self.unit_bytes_per_s
