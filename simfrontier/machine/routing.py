"""Routes between the devices of one node: fewest hops, then the widest, then the lowest link ids.

This is what the hardware is seen to do for pairs without a direct link, as far as point-to-point measurements show it.
"""

import math
from collections.abc import Sequence

from simfrontier.machine.hardware import Link

Routes = tuple[tuple[tuple[int, ...], ...], ...]


def routes(links: Sequence[Link], num_devices: int) -> Routes:
    """Local link ids of the route of every ordered pair [a][b]; () on the diagonal and where b cannot be reached."""
    outgoing: list[list[tuple[int, int]]] = [[] for _ in range(num_devices)]  # per device: (link id, to)
    for link_id, link in enumerate(links):
        if isinstance(link.src, int) and isinstance(link.dst, int):
            outgoing[link.src].append((link_id, link.dst))
    return tuple(_from(start, outgoing, links) for start in range(num_devices))


def _from(start: int, outgoing: list[list[tuple[int, int]]], links: Sequence[Link]) -> tuple[tuple[int, ...], ...]:
    # Level by level; of each device the first path (by link ids) for every width that all of its links have at least.
    # The best path to b need not extend the best path to its predecessor, since a narrow last link makes the widths
    # before it equal; but it extends the predecessor's first path of its own width.
    known: dict[int, dict[float, tuple[int, ...]]] = {start: {math.inf: ()}}
    level = {start: known[start]}
    while level:
        reached: dict[int, dict[float, tuple[int, ...]]] = {}
        for device, paths in level.items():
            for link_id, to in outgoing[device]:
                if to not in known:
                    first = reached.setdefault(to, {})
                    for width, path in paths.items():
                        narrowest, longer = min(width, links[link_id].bytes_per_s), (*path, link_id)
                        if narrowest not in first or longer < first[narrowest]:
                            first[narrowest] = longer
        known.update(reached)
        level = reached

    return tuple(_widest(known.get(to, {})) for to in range(len(outgoing)))


def _widest(paths: dict[float, tuple[int, ...]]) -> tuple[int, ...]:
    return paths[max(paths)] if paths else ()
