"""Links that serve messages one after the other: FIFO servers with token buckets, which count the bytes they carry.

A link of rate B and burst b serves c bytes that arrive at t until

    v' = max(v, t - b/B) + c/B,    and the bytes have left the link at max(t, v'),

where v is the v' of the previous message: a link that was idle for long enough passes b bytes at once. With cut-through
the first packet moves on to the next link when it has left this one; without packets the head of the message moves on
immediately. The tail leaves no link before it has left the previous link. With store-and-forward the whole message
moves on when its tail has left the link.

If the rate of a link changes over time, the same rule holds in bytes instead of seconds: with C(t) the bytes that the
link could have carried until t,

    V' = max(V, C(t) - b) + c,    and the bytes have left the link at max(t, the first time at which C is V').

A message in service continues at the new rate; at rate 0 it waits.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from simfrontier.core.network.fabric import Fabric


@dataclass(slots=True, kw_only=True)
class Server:
    """FIFO server of one link: the link's rate, the properties that affect single messages only, and the state of the
    queue (`free_s`: v)."""

    bytes_per_s: float
    latency_s: float = 0.0
    cut_through: bool = True
    burst_bytes: float = 0.0
    packet_bytes: float = 0.0  # of a message's first and last packet; 0 without packets
    free_s: float = -math.inf
    num_bytes: float = 0.0

    def serve(self, now: float, num_bytes: float, tail_s: float, share: float = 1.0) -> tuple[float, float]:
        """Serve a message whose head arrives now, at a `share` of the link's rate; `tail_s`: arrival time of the
        message's tail.

        Return the times at which the head and the tail of the message reach the far end of the link. This method must
        be called in the order of `now`.
        """
        rate = self.bytes_per_s * share
        packet_s = min(self.packet_bytes, num_bytes) / rate
        begun = max(self.free_s, now - self.burst_bytes / rate)
        self.free_s = begun + num_bytes / rate
        self.num_bytes += num_bytes
        tail = max(now, self.free_s, tail_s + packet_s if tail_s > now else 0.0)
        head = max(now, begun + packet_s) if self.cut_through else tail
        return head + self.latency_s, tail + self.latency_s


@dataclass(slots=True, kw_only=True)
class ChangingServer(Server):
    """FIFO server of one link whose rate changes: `later` lists (time, new rate) in order. On a link that is
    permanently dead, remaining bytes leave at infinity."""

    later: tuple[tuple[float, float], ...]
    free_bytes: float = -math.inf  # V
    _moments: list[float] = field(init=False)
    _rates: list[float] = field(init=False)
    _carried: list[float] = field(init=False)  # C at the moments

    def __post_init__(self) -> None:
        self._moments = [0.0, *(moment for moment, _ in self.later)]
        self._rates = [self.bytes_per_s, *(rate for _, rate in self.later)]
        self._carried = [0.0]
        for (begin, end), rate in zip(pairwise(self._moments), self._rates, strict=False):
            self._carried.append(self._carried[-1] + rate * (end - begin))

    def serve(self, now: float, num_bytes: float, tail_s: float, share: float = 1.0) -> tuple[float, float]:
        packet_bytes = min(self.packet_bytes, num_bytes) / share
        begun = max(self.free_bytes, self._until(now) - self.burst_bytes / share)
        self.free_bytes = begun + num_bytes / share
        self.num_bytes += num_bytes
        tail = max(now, self._done(self.free_bytes))
        if tail_s > now:
            tail = max(tail, tail_s)
            if math.isfinite(tail_s):
                tail = max(tail, self._done(self._until(tail_s) + packet_bytes))
        first = self._done(begun + packet_bytes) if packet_bytes else self._goes_on(begun)
        head = max(now, first) if self.cut_through else tail
        return head + self.latency_s, tail + self.latency_s

    def _until(self, now: float) -> float:
        """Return C(now), the bytes that the link could have carried until now."""
        piece = max(0, bisect_right(self._moments, now) - 1)
        return self._carried[piece] + self._rates[piece] * (now - self._moments[piece])

    def _done(self, num_bytes: float) -> float:
        """Return the first time at which C reaches `num_bytes`."""
        piece = max(0, bisect_left(self._carried, num_bytes) - 1)
        missing, rate = num_bytes - self._carried[piece], self._rates[piece]
        if rate == 0.0:
            return math.inf if missing > 0.0 else self._moments[piece]
        return self._moments[piece] + missing / rate

    def _goes_on(self, num_bytes: float) -> float:
        """Return the time from which on C exceeds `num_bytes`."""
        piece = max(0, bisect_right(self._carried, num_bytes) - 1)
        missing, rate = num_bytes - self._carried[piece], self._rates[piece]
        if rate == 0.0:
            return math.inf if missing >= 0.0 else self._moments[piece]
        return self._moments[piece] + missing / rate


def servers_of(fabric: Fabric, later: Sequence[tuple[float, Fabric]] = ()) -> list[Server]:
    """Return a server for every link, in the order of link ids, at the link's full capacity; `later`: the fabric from
    each of these times on."""
    machine = fabric.machine
    packets = machine.packets
    packet_bytes = 0.0 if packets is None else float(packets.payload_bytes + packets.header_bytes)
    out: list[Server] = []
    for link, (capacity, number) in enumerate(zip(fabric.capacity.tolist(), fabric.link_class.tolist(), strict=True)):
        known = machine.link_classes.get(fabric.class_names[number])
        changes = tuple((begin_s, float(each.capacity[link])) for begin_s, each in later)
        steady = all(rate == capacity > 0.0 for rate in (capacity, *(rate for _, rate in changes)))
        make = Server if steady else partial(ChangingServer, later=changes)
        out.append(
            make(
                bytes_per_s=capacity,
                latency_s=known.latency_s if known is not None else 0.0,
                cut_through=known.cut_through if known is not None else True,
                burst_bytes=known.burst_bytes if known is not None else 0.0,
                packet_bytes=packet_bytes,
            )
        )
    return out
