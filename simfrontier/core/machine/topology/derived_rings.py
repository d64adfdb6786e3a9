"""Rings and chains over the devices of a node, derived from its links: an XML has none, NCCL and RCCL search for them.

A ring visits every device once along links and returns to the first. The search is repeated, always along the links of
which most are left, and takes one link of each pair that the ring passes (both directions: the ring and its reverse).
This is simpler than the libraries' search, and gives the same for nodes whose links are all alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from simfrontier.base.errors import InputError
from simfrontier.core.machine.topology.node_topology import Pair

Order = tuple[int, ...]
MOST_STEPS: Final = 100_000  # of one search; nodes as they are built need less than a hundred


def rings_of(links: Mapping[Pair, int], num_devices: int) -> tuple[Order, ...]:
    """Return rings and their reverses. Raises InputError if the links have none."""
    left = dict(links)
    found: list[Order] = []
    while (ring := _ring(left, num_devices)) is not None and undirected(ring) not in map(undirected, found):
        found.append(ring)
        for a, b in _steps(ring):
            left[a, b] -= 1
    if not found:
        text = f"no ring over all {num_devices} devices along their links was found in {MOST_STEPS:,} steps"
        raise InputError(f"{text}; a machine file needs one; allowed: links that close a ring")
    return tuple(order for ring in found for order in (ring, ring[::-1]))


def undirected(ring: Order) -> Order:
    """Return a ring from its lowest device on, in the direction in which the second is lower: the same for its
    reverse."""
    at = ring.index(min(ring))
    turned = (*ring[at:], *ring[:at])
    return min(turned, (turned[0], *turned[:0:-1]))


def chains_of(rings: Sequence[Order], entries: Sequence[int]) -> tuple[Order, ...]:
    """Return one chain for each NIC, and its reverse: a ring (of several one after the other), cut before the device
    that the NIC is attached to."""
    forward = rings[::2]
    out: list[Order] = []
    for number, entry in enumerate(entries):
        ring = forward[number % len(forward)]
        at = ring.index(entry)
        chain = (*ring[at:], *ring[:at])
        out += [chain, chain[::-1]]
    return tuple(out)


def joins_of(links: Mapping[Pair, int], num_devices: int) -> tuple[Pair, ...]:
    """Return pairs of devices that close a ring where links alone do not: a path over each part of the node that links
    join, with the last device of each joined to the first of the next. None if there is a ring. Raises InputError if a
    part has no such path."""
    parts = _parts(links, num_devices)
    if len(parts) == 1 and _ring(links, num_devices) is not None:
        return ()
    paths = [_path(links, part) for part in parts]
    ends = [(path[-1], paths[(at + 1) % len(paths)][0]) for at, path in enumerate(paths)]
    return tuple(dict.fromkeys((min(pair), max(pair)) for pair in ends))


def _parts(links: Mapping[Pair, int], num_devices: int) -> list[list[int]]:
    """Return the devices that links join, part by part."""
    parts = [{device} for device in range(num_devices)]
    for pair, count in links.items():
        if count > 0:
            joined = set().union(*(part for part in parts if part.intersection(pair)))
            parts = [part for part in parts if not part.intersection(pair)] + [joined]
    return sorted(sorted(part) for part in parts)


def _path(links: Mapping[Pair, int], part: Sequence[int]) -> Order:
    for start in part:
        found = _search(links, part, start, closed=False, least=1)
        if found is not None:
            return found
    listed = ", ".join(map(str, part))
    raise InputError(f"no path over devices {listed} along their links was found; a machine file needs one")


def _ring(links: Mapping[Pair, int], num_devices: int) -> Order | None:
    """Search for a ring along the pairs with most links left."""
    devices = range(num_devices)
    if num_devices == 1:
        return None
    for least in sorted({count for count in links.values() if count > 0}, reverse=True):
        found = _search(links, devices, 0, closed=True, least=least)
        if found is not None:
            return found
    return None


def _search(links: Mapping[Pair, int], devices: Sequence[int], start: int, *, closed: bool, least: int) -> Order | None:
    """Search for a path from `start` over the devices along pairs of at least `least` links, those with most first,
    then to the lowest number; None if none is found."""
    weighed: dict[int, list[Pair]] = {device: [] for device in devices}
    for (a, b), count in links.items():
        if count >= least and a in weighed and b in weighed:
            weighed[a].append((-count, b))
            weighed[b].append((-count, a))
    near = {device: [other for _, other in sorted(others)] for device, others in weighed.items()}
    path, seen = [start], {start}
    waiting = [iter(near[start])]
    for _ in range(MOST_STEPS):
        if len(path) == len(devices) and (not closed or start in near[path[-1]]):
            return tuple(path)
        step = next((other for other in waiting[-1] if other not in seen), None)
        if step is not None:
            path.append(step)
            seen.add(step)
            waiting.append(iter(near[step]))
            continue
        waiting.pop()
        seen.discard(path.pop())
        if not path:
            return None
    return None


def _steps(ring: Order) -> list[Pair]:
    """Return the pairs that a ring passes; over two devices it passes their pair once."""
    steps = [(min(pair), max(pair)) for pair in zip(ring, ring[1:] + ring[:1], strict=True)]
    return list(dict.fromkeys(steps))
