"""Routes between the devices of one node: fewest hops, then the widest, then the lowest link ids.

This is what the hardware is seen to do for pairs without a direct link, as far as point-to-point measurements show it.
"""

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
    # All shortest paths are kept, level by level: the best path to b need not extend the best path to its predecessor,
    # since a narrow last link makes the widths before it equal.
    found: dict[int, list[tuple[int, ...]]] = {start: [()]}
    level = {start: found[start]}
    while level:
        reached: dict[int, list[tuple[int, ...]]] = {}
        for device, paths in level.items():
            for link_id, to in outgoing[device]:
                if to not in found:
                    reached.setdefault(to, []).extend((*path, link_id) for path in paths)
        found.update(reached)
        level = reached

    def narrowest_first(path: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
        return (-min((links[link_id].bytes_per_s for link_id in path), default=0.0), path)

    return tuple(min(found.get(to, [()]), key=narrowest_first) for to in range(len(outgoing)))
