"""Time laws of collectives: rings (protocols Simple and LL), double binary trees."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
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
    """Shape of a group: the numbers of its ranks, of their nodes (equally many ranks on each), and of their
    packages."""

    size: int
    num_nodes: int
    num_packages: int

    @property
    def ring_edges(self) -> tuple[int, int]:
        """Edges of the closed ring, (inside nodes, between nodes): n in all, one between nodes for each of k nodes."""
        between = self.num_nodes if self.num_nodes > 1 else 0
        return self.size - between, between

    @property
    def tree_depth(self) -> int:
        """Edges from the root to the farthest leaf of a binary tree over the nodes, as `double_tree` lays it."""
        return (self.num_nodes - 1).bit_length()

    def ring_mean(self, inside: float, between: float) -> float:
        """Return the mean over the edges of the closed ring."""
        near, far = self.ring_edges
        return (near * inside + far * between) / self.size

    def ring_crossed_s(self, inside_s: float, mean_s: float, rounds: int) -> float:
        """Return the time of an edge between nodes at which a closed ring's slowest block takes `mean_s` on average
        over its rounds * (n - 1) hops, if an edge inside a node takes `inside_s`.

        The slowest block crosses between nodes most often: k times in every full circle, and of the r edges left over
        on one in every n/k, rounded up.
        """
        hops = rounds * (self.size - 1)
        circles, left = divmod(hops, self.size)
        crossed = circles * self.num_nodes + min(self.num_nodes, -(-left * self.num_nodes // self.size))
        if self.num_nodes == 1 or not crossed:
            return mean_s
        return (hops * mean_s - (hops - crossed) * inside_s) / crossed


@dataclass(frozen=True, slots=True, kw_only=True)
class HopTimes:
    """Start-up time of an algorithm and of its hops, in seconds."""

    base_s: Annotated[NotNegative, SOURCED]
    hop_in_node_s: Annotated[NotNegative, SOURCED]
    hop_between_nodes_s: Annotated[NotNegative, SOURCED]


@dataclass(frozen=True, slots=True, kw_only=True)
class RingTimes(HopTimes):
    """Parameters of rings: `forwarded_share` of a block has to arrive before the next edge starts.

    `sharpness`: channels, links and nodes are not alike, so the longer of two times is a smooth maximum: (x^p +
    y^p)^(1/p). Infinite: the maximum. `slices`: parts into which a channel cuts a block, each of at least
    `least_elements`.
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
    """Parameters of trees, which run at `bandwidth_ratio` of a ring's rate.

    `slices`: successive parts into which a channel cuts 1 MiB; over several nodes a part has at least
    `least_slice_bytes`. `chunk_bytes`: bytes of a channel that a hop between nodes waits for. `fill_share`: over
    several nodes, the time of a part on a hop inside a node before the next hop has it, as a share of its time at the
    tree's rate.
    """

    bandwidth_ratio: Annotated[Share, SOURCED]
    slices: Slices = 32  # assumed, where the file does not say it
    chunk_bytes: Annotated[Positive, SOURCED] = 0.0  # without it hops wait for no chunk
    least_slice_bytes: Annotated[Positive, SOURCED] = 1.0
    fill_share: Annotated[Part, SOURCED] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LowLatency(HopTimes):
    """The LL protocol: every 8 bytes carry a flag, so blocks flow at `rate_share` of a ring's rate.

    It uses one channel for every `bytes_per_channel` of a block, at most `num_channels`, and each channel's message
    adds `channel_s` to a hop between nodes, since one thread of the host hands all of them to the network.
    """

    rate_share: Annotated[Share, SOURCED]
    channel_s: Annotated[NotNegative, SOURCED] = 0.0
    bytes_per_channel: Annotated[Positive, SOURCED] = math.inf
    num_channels: Annotated[int, Ge(1), Le(CHANNELS), SOURCED] = 1

    def hop_of_block_s(self, block_bytes: float) -> float:
        """Return the start-up time, in seconds, of a hop between nodes with a block of that size."""
        channels = minimum(maximum(block_bytes / self.bytes_per_channel, 1.0), self.num_channels)
        return self.hop_between_nodes_s + channels * self.channel_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RingStep:
    """One step of a ring, in which each rank forwards a block: its time beyond block / rate.

    `extra_s` is for the closed ring, on which the n blocks go around together, `inside_s` for an edge inside a node.
    `share` of a block has to arrive, at `bytes_per_s`, before the next edge starts.
    """

    base_s: float
    extra_s: float
    inside_s: float
    share: float
    bytes_per_s: float


Times = TypeVar("Times", HopTimes, RingStep)


def either(condition: bool, one: Times, other: Times, form: type[Times]) -> Times:
    """Return `one` where the condition holds and `other` elsewhere; field by field, as a `form`, if it is an array."""
    if isinstance(condition, bool):
        return one if condition else other
    names = [each.name for each in fields(form)]
    return form(**{name: where(condition, getattr(one, name), getattr(other, name)) for name in names})


def simple_step(ring: RingTimes, block_bytes: float, group: GroupShape, rate: float) -> RingStep:
    """Return a step with the Simple protocol: max(c/B, a + f c/B), with its corner rounded off.

    A ring of n ranks carries n blocks around: a step takes as long as its slowest link needs for a block, c/B, or as
    long as a block needs for an edge on average, start-up and the part f of it that has to come before the next edge
    starts, whichever is longer: latency and bandwidth hide each other.
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
    """Return a step with LL: a + h channels + c / (share * B), never less than c/B."""
    between_s = low.hop_of_block_s(block_bytes)
    slower_s = block_bytes / rate * (1.0 / low.rate_share - 1.0)
    return RingStep(
        base_s=low.base_s,
        extra_s=group.ring_mean(low.hop_in_node_s, between_s) + slower_s,
        inside_s=low.hop_in_node_s + slower_s,
        share=1.0,
        bytes_per_s=rate * low.rate_share,
    )


def tree_passage_s(depth: int, hop_s: float, volume_s: float) -> float:
    """Return the time from the first byte sent to the last one received, for trees `depth` hops between nodes high.

    `volume_s`: time of the busiest link for all bytes that it carries, of which one half goes up and the other down.

    While hops take long, links lie idle between the two halves: the last part waits for the first half to be sent, and
    then goes up and down, 2 d hops. While the halves take long, the busiest link never rests: it begins when the first
    part has come up to it, and what it sends last still has its own height to go down. The busiest node of a tree is
    one with two children and a parent, d - 2 hops above the lowest such node, so that d - 2 hops come before and d - 1
    after; of a tree of one or two hops it is next to the leaves.

        T = max(2 d a + V/2, max(1, 2 d - 3) a + V)
    """
    return maximum(2 * depth * hop_s + volume_s / 2, tree_waits_s(depth, hop_s) + volume_s)


def tree_waits_s(depth: int, hop_s: float) -> float:
    """Return the time of the hops that even a continuously busy link cannot hide."""
    return max(1, 2 * depth - 3) * hop_s if depth else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLaw:
    """Time of a single message of a lowered call in addition to its links (fidelity `chunk`).

    A call starts after `base_s`. A message of c bytes arrives at the earliest max(c/B, a + f c/B) after it was sent,
    with a the hop's start-up inside a node or between nodes, f `forwarded_share`, B `bytes_per_s` (infinite if messages
    are as fast as their links); and never before its links have carried it, plus a if `is_added`.
    """

    base_s: float
    hop_in_node_s: float
    hop_between_nodes_s: float
    forwarded_share: float
    bytes_per_s: float
    is_added: bool


def added(hops: HopTimes) -> StepLaw:
    """Return the law of messages that are as fast as their links, each with its start-up added."""
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
    """Rates, in bytes/s, at which a rank sends in each of the two calls while nothing else runs; between nodes with all
    of a node's ranks at once."""

    between: float
    inside: float
