"""Routes within one node: fewest hops, then the widest, then the lowest link ids.

This is what the hardware is seen to do for pairs without a direct link, as far as point-to-point measurements show it.
"""

import math
from collections.abc import Collection, Mapping, Sequence

from simfrontier.core.machine.hardware import End, Link

Route = tuple[int, ...]
Routes = tuple[tuple[Route, ...], ...]
_Outgoing = Mapping[End, Sequence[tuple[int, End]]]  # of each end: (link id, to)


def routes(links: Sequence[Link], num_devices: int) -> Routes:
    """Local link ids of the route of every ordered pair [a][b]; () on the diagonal and where b cannot be reached."""
    between = [number for number, link in enumerate(links) if isinstance(link.src, int) and isinstance(link.dst, int)]
    outgoing = _outgoing(links, between)
    return tuple(
        tuple(found.get(to, ()) for to in range(num_devices))
        for found in (_from(start, outgoing, links) for start in range(num_devices))
    )


def way(links: Sequence[Link], usable: Collection[int], start: End, end: End) -> Route:
    """Local link ids of the route from one end to another, devices, NICs or the network, over the usable links; ()
    where there is none."""
    return _from(start, _outgoing(links, usable), links).get(end, ())


def _outgoing(links: Sequence[Link], usable: Collection[int]) -> _Outgoing:
    out: dict[End, list[tuple[int, End]]] = {}
    for number in sorted(usable):
        out.setdefault(links[number].src, []).append((number, links[number].dst))
    return out


def _from(start: End, outgoing: _Outgoing, links: Sequence[Link]) -> dict[End, Route]:
    # Level by level; of each end the first path (by link ids) for every width that all of its links have at least.
    # The best path to b need not extend the best path to its predecessor, since a narrow last link makes the widths
    # before it equal; but it extends the predecessor's first path of its own width.
    known: dict[End, dict[float, Route]] = {start: {math.inf: ()}}
    level = {start: known[start]}
    while level:
        reached: dict[End, dict[float, Route]] = {}
        for here, paths in level.items():
            for link_id, to in outgoing.get(here, ()):
                if to not in known:
                    first = reached.setdefault(to, {})
                    for width, path in paths.items():
                        narrowest, longer = min(width, links[link_id].bytes_per_s), (*path, link_id)
                        if narrowest not in first or longer < first[narrowest]:
                            first[narrowest] = longer
        known.update(reached)
        level = reached
    return {to: paths[max(paths)] for to, paths in known.items()}
