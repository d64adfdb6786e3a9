"""Links that serve messages one after the other: FIFO servers with token buckets, which count what they carry.

A link of rate B and burst b serves c bytes that arrive at t until

    v' = max(v, t - b/B) + c/B,    and they have left it at max(t, v'),

v being the v' of what came before: a link that was idle for long enough lets b bytes through at once. With cut-through
the first packet goes on to the next link when it has left this one, without packets the head goes on at once; the tail
leaves no link before it has left the one before. With store-and-forward everything goes on when the tail has left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from simfrontier.network.fabric import Fabric


@dataclass(slots=True, kw_only=True)
class Server:
    """One link: its rate, what only single messages feel of it, and the state of its queue (`free_s`: v)."""

    bytes_per_s: float
    latency_s: float = 0.0
    cut_through: bool = True
    burst_bytes: float = 0.0
    packet_bytes: float = 0.0  # of a message's first and last packet; 0 where messages are not cut
    free_s: float = -math.inf
    num_bytes: float = 0.0

    def serve(self, now: float, num_bytes: float, tail_s: float, share: float = 1.0) -> tuple[float, float]:
        """Carry a message whose head is here now, at that share of the rate; `tail_s`: when its tail comes.

        Returns when its head and when its tail are at the link's far end. Calls must come in the order of `now`.
        """
        rate = self.bytes_per_s * share
        packet_s = min(self.packet_bytes, num_bytes) / rate
        begun = max(self.free_s, now - self.burst_bytes / rate)
        self.free_s = begun + num_bytes / rate
        self.num_bytes += num_bytes
        tail = max(now, self.free_s, tail_s + packet_s if tail_s > now else 0.0)
        head = max(now, begun + packet_s) if self.cut_through else tail
        return head + self.latency_s, tail + self.latency_s


def servers_of(fabric: Fabric) -> list[Server]:
    """A server for every link, by link id, at its whole capacity."""
    machine = fabric.machine
    packets = machine.packets
    packet_bytes = 0.0 if packets is None else float(packets.payload_bytes + packets.header_bytes)
    out = []
    for capacity, number in zip(fabric.capacity.tolist(), fabric.link_class.tolist(), strict=True):
        known = machine.link_classes.get(fabric.class_names[number])
        out.append(
            Server(
                bytes_per_s=capacity,
                latency_s=known.latency_s if known is not None else 0.0,
                cut_through=known.cut_through if known is not None else True,
                burst_bytes=known.burst_bytes if known is not None else 0.0,
                packet_bytes=packet_bytes,
            )
        )
    return out
