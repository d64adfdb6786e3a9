"""Wirings for the tests of emulated fabrics: two nodes of Frontier, slowly, and small ones by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from simfrontier.machine import Packets, load_machine
from simfrontier.network import Fabric
from simfrontier_extras.emulation.wiring import Cable, Wiring
from simfrontier_extras.emulation.wiring_of import wiring_of

RATE = 1e6  # of cables that are made by hand, bytes/s


def frontier(nic_bytes_per_s: float, packet_bytes: int = 9000) -> Wiring:
    """Two nodes of Frontier, 16 ranks, their NICs (25 GB/s) slowed down to so much and all else alike."""
    payload = packet_bytes - 52  # IP 20, TCP 20, its time stamps 12
    packets = Packets(payload_bytes=payload, header_bytes=66, message_bytes=0, reply_bytes=0, reply_message_bytes=0)
    wiring = wiring_of(Fabric.build(replace(load_machine("frontier"), packets=packets), 2), "two nodes of Frontier")
    scale = nic_bytes_per_s / 25e9
    cables = tuple(each.model_copy(update={"bytes_per_s": scale * each.bytes_per_s}) for each in wiring.cables)
    return wiring.model_copy(update={"cables": cables})


def wired(
    boxes: int, ranks: tuple[int, ...], links: list[tuple[int, int]], routes: dict[tuple[int, int], list[int]]
) -> Wiring:
    """Boxes 0, 1, ..; `routes` are ways by the boxes that they meet."""
    cables = tuple(
        Cable(name=f"{a}>{b} {k}", link_class="wire", src=f"{a}", dst=f"{b}", bytes_per_s=RATE, burst_bytes=1600)
        for k, (a, b) in enumerate(links)
    )

    def way(a: int, b: int) -> tuple[int, ...]:
        met = routes.get((a, b), [])
        return tuple(links.index(step) for step in pairwise(met))

    return Wiring(
        title="x",
        boxes=tuple(str(box) for box in range(boxes)),
        ranks=tuple(str(box) for box in ranks),
        cables=cables,
        routes=tuple(tuple(way(a, b) for b in ranks) for a in ranks),
        packet_bytes=1500,
    )
