"""Rings and chains over the devices of a node, derived from its links: a topology XML has none, since NCCL and RCCL
search for them.

A ring visits every device once along links and returns to the first device. The search for rings is repeated; each
search prefers the pairs of devices with most links left, and the ring that it finds uses up one link of each pair that
it passes (one link carries both directions: the ring and its reverse). This is simpler than the libraries' search, and
finds the same rings in nodes whose links are all alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from simfrontier.base.errors import InputError
from simfrontier.core.machine.topology.node_topology import Pair

Order = tuple[int, ...]
MOST_STEPS: Final = 100_000  # of one search; nodes as they are built need less than a hundred


def rings_of(links: Mapping[Pair, int], num_devices: int) -> tuple[Order, ...]:
    """Return the rings that the links allow, each followed by its reverse. Raises InputError if there is no ring."""
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
    """Return a ring in canonical form, equal for a ring and its reverse: it starts at the lowest device and goes first
    to the lower of that device's two neighbours."""
    at = ring.index(min(ring))
    turned = (*ring[at:], *ring[:at])
    return min(turned, (turned[0], *turned[:0:-1]))


def chains_of(rings: Sequence[Order], entries: Sequence[int]) -> tuple[Order, ...]:
    """Return one chain for each NIC, each followed by its reverse: a ring cut open so that the chain starts at the
    device that the NIC is attached to. Several rings are used in turn."""
    forward = rings[::2]
    out: list[Order] = []
    for number, entry in enumerate(entries):
        ring = forward[number % len(forward)]
        at = ring.index(entry)
        chain = (*ring[at:], *ring[:at])
        out += [chain, chain[::-1]]
    return tuple(out)


def joins_of(links: Mapping[Pair, int], num_devices: int) -> tuple[Pair, ...]:
    """Return the pairs of devices that must be joined in addition to the links to close a ring; () if the links alone
    close one.

    Each part of the node that is connected by links gets a path over all its devices; the last device of each path is
    joined to the first device of the next. Raises InputError if a part has no such path.
    """
    parts = _parts(links, num_devices)
    if len(parts) == 1 and _ring(links, num_devices) is not None:
        return ()
    paths = [_path(links, part) for part in parts]
    ends = [(path[-1], paths[(at + 1) % len(paths)][0]) for at, path in enumerate(paths)]
    return tuple(dict.fromkeys((min(pair), max(pair)) for pair in ends))


def _parts(links: Mapping[Pair, int], num_devices: int) -> list[list[int]]:
    """Return the connected components of the link graph, each as a sorted list of devices."""
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
    """Search for a ring that prefers the pairs of devices with most links left; None if none is found."""
    devices = range(num_devices)
    if num_devices == 1:
        return None
    for least in sorted({count for count in links.values() if count > 0}, reverse=True):
        found = _search(links, devices, 0, closed=True, least=least)
        if found is not None:
            return found
    return None


def _search(links: Mapping[Pair, int], devices: Sequence[int], start: int, *, closed: bool, least: int) -> Order | None:
    """Search for a path from `start` over all `devices` along pairs with at least `least` links; a `closed` path can
    return to `start`. Pairs with more links are tried first, then lower device numbers. Return None if no path is
    found."""
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
    """Return the pairs of neighbouring devices in a ring; a ring of two devices passes their pair once."""
    steps = [(min(pair), max(pair)) for pair in zip(ring, ring[1:] + ring[:1], strict=True)]
    return list(dict.fromkeys(steps))
