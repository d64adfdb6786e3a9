"""Time laws of NCCL's calls among devices of one node, joined by NVLink switches or PCI Express: rings with the
protocols LL, LL128 and Simple, all-reduces that the switches sum (NVLS), direct messages, and the rule by which NCCL
chooses among them.

Sources: NVIDIA/nccl src/graph/tuning.cc (ncclTopoTuneModel, the choice), src/graph/search.cc (heads of NVLS),
src/enqueue.cc (channels and chunks by size).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from simfrontier.base.io import SOURCED, NotNegative, Positive, Share
from simfrontier.core.collectives.laws import GroupShape, RingStep, RingTimes, either
from simfrontier.core.machine import maximum, minimum, where
from simfrontier.core.program import CollectiveKind

RingProtocol = Literal["ll", "ll128", "simple"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedProtocol:
    """NCCL's own prediction for rings with a protocol: a time per call and per hop, and the share of the bus's rate
    that it reaches, at most `cap_bytes_per_s`."""

    base_s: Annotated[NotNegative, SOURCED]
    hop_s: Annotated[NotNegative, SOURCED]
    rate_share: Annotated[Positive, SOURCED]
    cap_bytes_per_s: Annotated[Positive, SOURCED] = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedNvls:
    """NCCL's own prediction for NVLS: a time per call, and the rate of a head (there is one for each rank) times
    `rate_share`."""

    base_s: Annotated[NotNegative, SOURCED]
    head_bytes_per_s: Annotated[Positive, SOURCED]
    rate_share: Annotated[Positive, SOURCED]


@dataclass(frozen=True, slots=True, kw_only=True)
class InNodeTuning:
    """NCCL's choice of algorithm and protocol inside a node: the one with the least predicted time.

    `bus_bytes_per_s`: the rate of all links of a device that NCCL assumes. `ll128`, `nvls`: None for devices without.
    """

    bus_bytes_per_s: Annotated[Positive, SOURCED]
    ll: AssumedProtocol
    simple: AssumedProtocol
    ll128: AssumedProtocol | None = None
    nvls: AssumedNvls | None = None

    def ring_s(self, protocol: RingProtocol, kind: CollectiveKind, message_bytes: float, size: int) -> float:
        """Return the predicted time, in seconds, of a ring with a protocol; infinite without it."""
        assumed: AssumedProtocol | None = getattr(self, protocol)
        if assumed is None:
            return math.inf
        hops = (2 if kind == "all_reduce" else 1) * (size - 1)
        rate = minimum(self.bus_bytes_per_s * assumed.rate_share, assumed.cap_bytes_per_s)
        return assumed.base_s + hops * (assumed.hop_s + message_bytes / size / rate)

    def nvls_s(self, message_bytes: float, size: int) -> float:
        """Return the predicted time, in seconds, of an all-reduce by NVLS; infinite without it."""
        if self.nvls is None:
            return math.inf
        bus = minimum(size * self.nvls.head_bytes_per_s, self.bus_bytes_per_s)
        rate = bus * self.nvls.rate_share * 2.0 * (size - 1) / size  # both halves of an all-reduce at once
        return self.nvls.base_s + 2 * (size - 1) / size * message_bytes / rate

    def takes(self, protocol: RingProtocol, kind: CollectiveKind, message_bytes: float, size: int) -> bool:
        """Return whether rings use a protocol rather than one of the others."""
        others: list[RingProtocol] = [each for each in _PROTOCOLS if each != protocol]
        least_s = minimum(*(self.ring_s(each, kind, message_bytes, size) for each in others))
        return self.ring_s(protocol, kind, message_bytes, size) <= least_s

    def takes_nvls(self, message_bytes: float, size: int) -> bool:
        """Return whether an all-reduce uses NVLS rather than rings."""
        rings = [self.ring_s(each, "all_reduce", message_bytes, size) for each in _PROTOCOLS]
        return self.nvls_s(message_bytes, size) < minimum(rings[0], minimum(rings[1], rings[2]))


_PROTOCOLS: tuple[RingProtocol, ...] = ("ll", "ll128", "simple")


@dataclass(frozen=True, slots=True, kw_only=True)
class LowLatencyInNode:
    """Rings with the protocol LL: its share of a ring's rate, and the pass over a rank's own block as a share of the
    time of a block. NCCL gives a block a channel for every `bytes_per_channel`, so up to `least_block_bytes`, which
    fill all channels, a hop takes as long as one of that size, and with one channel in proportion to the block."""

    hop_s: Annotated[NotNegative, SOURCED]
    rate_share: Annotated[Share, SOURCED]
    own_share: Annotated[NotNegative, SOURCED] = 0.0
    least_block_bytes: Annotated[NotNegative, SOURCED] = 0.0
    bytes_per_channel: Annotated[Positive, SOURCED] = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LowLatency128InNode:
    """Rings with the protocol LL128, whose lines of 128 bytes carry 120 of data."""

    hop_s: Annotated[NotNegative, SOURCED]
    rate_share: Annotated[Share, SOURCED]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleInNode:
    """Rings with the protocol Simple: time per call in addition to the launch, and start-up time of a hop."""

    base_s: Annotated[NotNegative, SOURCED]
    hop_s: Annotated[NotNegative, SOURCED]


@dataclass(frozen=True, slots=True, kw_only=True)
class NvlsTimes:
    """All-reduces by NVLS: time per call in addition to the launch, the longest time of filling the pipeline of chunks,
    which grow with the message, and the rate as a share of a ring's."""

    base_s: Annotated[NotNegative, SOURCED]
    fill_s: Annotated[Positive, SOURCED]
    rate_share: Annotated[Share, SOURCED]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectInNode:
    """Direct messages: times per call in addition to the launch, with the protocol LL for messages of at most
    `low_latency_bytes` and with Simple above, the longest time of filling the pipelines of Simple, and the copy of a
    rank's own part in an all-to-all, as a share of the time of a message."""

    low_latency_bytes: Annotated[NotNegative, SOURCED]
    low_latency_base_s: Annotated[NotNegative, SOURCED]
    base_s: Annotated[NotNegative, SOURCED]
    fill_s: Annotated[Positive, SOURCED]
    own_share: Annotated[NotNegative, SOURCED]


@dataclass(frozen=True, slots=True, kw_only=True)
class InNode:
    """Time laws of calls among devices of one node. `base_s`: launch of a call. `own_share`: the pass over a rank's own
    block with LL128 and Simple, which a ring sends nowhere, as a share of the time of a block."""

    base_s: Annotated[NotNegative, SOURCED]
    own_share: Annotated[NotNegative, SOURCED]
    ll: LowLatencyInNode
    ll128: LowLatency128InNode | None = None
    simple: SimpleInNode
    direct: DirectInNode
    nvls: NvlsTimes | None = None
    tuning: InNodeTuning

    def ring_step(
        self, ring: RingTimes, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> RingStep:
        """Return the timing of a step of a ring with blocks of c bytes at the rate B, by the protocol that NCCL
        chooses. With h hops a call takes

            LL       base + h hop + (h max(c, min(1, c / channel) least) + own c) / (share B)
            LL128    base + h hop + (h + own) c / (share B)
            Simple   base + h max(c/B, hop + f c/B) + own c/B, the maximum as smooth as `ring` has it
        """
        block_s = message_bytes / group.size / bytes_per_s
        takes_ll, takes_ll128 = (
            self.tuning.takes(protocol, kind, message_bytes, group.size) for protocol in ("ll", "ll128")
        )
        fast = self._simple(ring, block_s, bytes_per_s)
        if self.ll128 is not None:
            fast = either(takes_ll128, self._ll128(self.ll128, block_s, bytes_per_s), fast, RingStep)
        return either(takes_ll, self._ll(message_bytes / group.size, bytes_per_s), fast, RingStep)

    def _ll(self, block_bytes: float, bytes_per_s: float) -> RingStep:
        low, block_s = self.ll, block_bytes / bytes_per_s
        least_bytes = minimum(1.0, block_bytes / low.bytes_per_channel) * low.least_block_bytes
        extra_s = low.hop_s + maximum(block_bytes, least_bytes) / (low.rate_share * bytes_per_s) - block_s
        return self._flagged(low.own_share * block_s, extra_s, low.rate_share, bytes_per_s)

    def _ll128(self, low: LowLatency128InNode, block_s: float, bytes_per_s: float) -> RingStep:
        extra_s = low.hop_s + block_s * (1.0 / low.rate_share - 1.0)
        return self._flagged(self.own_share * block_s, extra_s, low.rate_share, bytes_per_s)

    def _flagged(self, own_s: float, extra_s: float, rate_share: float, bytes_per_s: float) -> RingStep:
        """Return a step of a protocol whose lines carry flags beside the data, `rate_share` of them data. `own_s`: time
        of the pass over the rank's own block without flags."""
        return RingStep(
            base_s=self.base_s + own_s / rate_share,
            extra_s=extra_s,
            inside_s=extra_s,
            share=1.0,
            bytes_per_s=bytes_per_s * rate_share,
        )

    def _simple(self, ring: RingTimes, block_s: float, bytes_per_s: float) -> RingStep:
        hidden_s = (1.0 - ring.forwarded_share) * block_s
        extra_s = ring.longer(block_s, self.simple.hop_s + block_s - hidden_s) - block_s
        return RingStep(
            base_s=self.base_s + self.simple.base_s + self.own_share * block_s,
            extra_s=extra_s,
            inside_s=extra_s,
            share=ring.forwarded_share,
            bytes_per_s=bytes_per_s,
        )

    def direct_s(self, kind: CollectiveKind, message_bytes: float, size: int, bytes_per_s: float) -> float:
        """Return the time of direct messages, in seconds, in addition to the time of the bytes sent: the start-up, with
        Simple that of filling (`nvls_s`), and the copy of a rank's own part."""
        direct, part_s = self.direct, message_bytes / size / bytes_per_s
        own_s = part_s * (direct.own_share if kind == "all_to_all" else 0.0)
        simple_s = direct.base_s + _filled_s((size - 1) * part_s + own_s, direct.fill_s)
        is_low = message_bytes / size <= direct.low_latency_bytes
        return self.base_s + own_s + where(is_low, direct.low_latency_base_s, simple_s)

    def nvls_s(self, sent_bytes: float, bytes_per_s: float) -> float:
        """Return the time of an all-reduce by NVLS, in seconds, in addition to the time t of the bytes sent:
        base + t fill / (t + fill)."""
        assert self.nvls is not None, "`Library.algorithms` names no NVLS in a library without its times"
        return self.base_s + self.nvls.base_s + _filled_s(sent_bytes / bytes_per_s, self.nvls.fill_s)


def _filled_s(sent_s: float, fill_s: float) -> float:
    """Return the time of filling a pipeline of chunks that grow with the message, of which sending takes `sent_s`."""
    return sent_s * fill_s / (sent_s + fill_s)
