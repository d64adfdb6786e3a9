"""Small wirings by hand, for the tests of emulated fabrics."""

from __future__ import annotations

from itertools import pairwise

from simfrontier_extras.emulation.wiring import Cable, Wiring

RATE = 1e6  # of cables that are made by hand, bytes/s


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
