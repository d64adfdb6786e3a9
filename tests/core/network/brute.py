"""Patterns message by message and rates link by link, with plain loops: what the package is held against; and patterns
to try it with."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from simfrontier.core.collectives import Library, algorithm
from simfrontier.core.collectives.algorithms.direct import direct_loads as direct
from simfrontier.core.collectives.algorithms.ring import ring_loads as ring
from simfrontier.core.cost import EqualGroups
from simfrontier.core.network import Fabric, Folding, Pattern, equal_parts, local, solve

Loads = dict[tuple[int, int], float]


def messages_of_ring(fabric: Fabric, members: list[int]) -> Iterator[tuple[int, int, float]]:
    """(source device, target device, part of the volume), channel by channel."""
    per_node = fabric.machine.devices_per_node
    nodes = sorted({device // per_node for device in members})
    node = fabric.machine.node
    orders = node.chains if len(nodes) > 1 else node.rings
    for order in orders:
        walk = [n * per_node + p for n in nodes for p in order if n * per_node + p in members]
        for i, device in enumerate(walk):
            yield device, walk[(i + 1) % len(walk)], 1.0 / len(orders)


def messages_of_direct(fabric: Fabric, members: list[int]) -> Iterator[tuple[int, int, float]]:
    """(source device, target device, part of the volume), pair by pair."""
    for source in members:
        for target in members:
            if source != target:
                yield source, target, 1.0 / (len(members) - 1)


def wires_of(fabric: Fabric, source: int, target: int) -> list[tuple[int, float]]:
    """The links of one message, with the part of it that each carries."""
    machine, wires = fabric.machine, fabric.wires_per_node
    (m, a), (n, b) = divmod(source, machine.devices_per_node), divmod(target, machine.devices_per_node)
    if m == n:
        return [(m * wires + wire, 1.0) for wire in machine.node.route(a, b)]
    out = [(m * wires + wire, 1.0) for wire in machine.node.to_network(a)]
    out += [(n * wires + wire, 1.0) for wire in machine.node.from_network(b)]
    fly, count = machine.dragonfly, fabric.num_pool_groups
    if fly is not None and count:
        g, h = (int(fabric.group_of_node[node]) for node in (m, n))
        if g != h:
            third = [c for c in range(count) if c not in (g, h)]
            aside = fly.nonminimal_share if third else 0.0
            out.append((fabric.pool_base + g * count + h, 1.0 - aside))
            for c in third:
                out.append((fabric.pool_base + g * count + c, aside / len(third)))
                out.append((fabric.pool_base + c * count + h, aside / len(third)))
    tree = machine.fat_tree
    g, h = (int(fabric.group_of_node[node]) for node in (m, n))
    if tree is not None and count and g != h:
        out.append((fabric.pool_base + 2 * g, 1.0))
        out.append((fabric.pool_base + 2 * h + 1, 1.0))
    return out


def brute(fabric: Fabric, groups: NDArray[np.int64], shape: str) -> tuple[Loads, list[list[int]]]:
    """Loads per (activity, wire), and the number of messages per activity and boundary."""
    loads: Counter[tuple[int, int]] = Counter()
    machine, edges = fabric.machine, []
    for activity, ranks in enumerate(groups.tolist()):
        members = [int(fabric.device_of[rank]) for rank in ranks]
        make = messages_of_ring if shape == "ring" else messages_of_direct
        crossed = [0, 0, 0]
        for source, target, part in make(fabric, members):
            same_package = source // machine.devices_per_package == target // machine.devices_per_package
            same_node = source // machine.devices_per_node == target // machine.devices_per_node
            crossed[0 if same_package else 1 if same_node else 2] += 1
            for link, fraction in wires_of(fabric, source, target):
                share = machine.link_classes[fabric.class_names[fabric.link_class[link]]].share
                loads[activity, link] += part * fraction / share  # type: ignore[assignment]
        edges.append(crossed)
    return {key: load for key, load in loads.items() if load > 1e-12}, edges


def wire_loads(pattern: Pattern) -> Loads:
    """A pattern's wire loads as a dictionary; every (activity, link) must be there once."""
    count = pattern.num_wire_loads
    keys = list(zip(pattern.act[:count].tolist(), pattern.link[:count].tolist(), strict=True))
    assert len(set(keys)) == count
    return dict(zip(keys, pattern.weight[:count].tolist(), strict=True))


def full_rates(fabric: Fabric, patterns: dict[str, Pattern], hbm: dict[str, float]) -> dict[str, NDArray[np.float64]]:
    """Speeds of all activities with every link in one dense matrix; hbm: bytes of memory traffic per byte of volume."""
    starts = np.cumsum([0] + [pattern.num for pattern in patterns.values()])
    usage = np.zeros((fabric.num_links, starts[-1]))
    for start, (key, pattern) in zip(starts, patterns.items(), strict=False):
        factor = np.where(fabric.kind[pattern.link] == 1, hbm[key], np.where(fabric.kind[pattern.link] == 2, 0.0, 1.0))
        np.add.at(usage, (pattern.link, start + pattern.act), pattern.weight * factor / pattern.peak[pattern.act])
    rate = solve(usage, fabric.capacity, np.full(starts[-1], np.inf))
    return {key: rate[a:b] for key, a, b in zip(patterns, starts, starts[1:], strict=False)}


def folded_rates(
    folding: Folding, patterns: dict[str, Pattern], hbm: dict[str, float]
) -> dict[str, NDArray[np.float64]]:
    """The same speeds from the quotient, written back to every activity."""
    where = [(key, cls) for key in patterns for cls in range(len(folding.count(key)))]
    usage = np.zeros((folding.num_link_classes, len(where)))
    for i, (key, cls) in enumerate(where):
        column = folding.column(key, cls)
        usage[column.rows, i] = column.wire + hbm[key] * column.hbm
    rate = solve(usage, folding.capacity, np.full(len(where), np.inf))
    of = dict(zip(where, rate.tolist(), strict=True))
    return {key: np.array([of[key, int(c)] for c in folding.activity_class[key]]) for key in patterns}


def six_patterns(fabric: Fabric) -> dict[str, Pattern]:
    """Rings over all ranks, nodes, packages and equal positions of nodes; all-to-alls of these; local work."""
    ranks = np.arange(fabric.num_ranks)
    per_node = fabric.machine.devices_per_node
    return {
        "world": ring(fabric, ranks[None, :], {}),
        "node": ring(fabric, ranks.reshape(-1, per_node), {}),
        "package": ring(fabric, ranks.reshape(-1, fabric.machine.devices_per_package), {}),
        "cross": ring(fabric, ranks.reshape(-1, per_node).T, {}),
        "cross direct": direct(fabric, ranks.reshape(-1, per_node).T, {}),
        "local": local(fabric),
    }


def limits(groups: EqualGroups, name: str, library: Library) -> dict[str, float]:
    """The most that a rank could send by an algorithm if only the links of one class held it up, at a share of 1: bytes
    per second by class of link."""
    fabric, whole = groups.fabric, dict.fromkeys(groups.machine.link_classes, 1.0)
    used, rate = equal_parts(fabric, algorithm(name).loads(fabric, groups.groups, library, whole))
    classes = fabric.link_class[used]
    return {fabric.class_names[number]: float(rate[classes == number].min()) for number in np.unique(classes)}
