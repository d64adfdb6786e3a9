"""What ops over groups of ranks load on every link, per byte of volume: how a pattern is put together.

Steady state only: start-up latencies, and the caps that a library's protocol sets, belong to the op. A pattern is
built from templates of one node, written out over arrays of nodes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats, Ints
from simfrontier.base.errors import InputError, nearest
from simfrontier.core.machine import Machine, Node
from simfrontier.core.network.fabric import Fabric, GroupLayout, lay_out

RingOrder = Literal["links", "ranks"]
PACKAGE, NODE, NETWORK = 0, 1, 2  # the boundaries at which endpoint payload is counted


@dataclass(slots=True, kw_only=True)
class Template:
    """Loads that one visit brings to the wires of its node, and its messages by boundary.

    wires    local wire -> bytes per byte of volume inside the node
    network  local wire -> the same for the ways to and from the network
    edges    messages by boundary (same package, same node, between nodes)
    """

    wires: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    network: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    edges: list[int] = field(default_factory=lambda: [0, 0, 0])


def positions(mask: int) -> list[int]:
    """The positions whose bit is set, in ascending order."""
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def orders(node: Node, mask: int, spans_nodes: bool, ring_order: RingOrder = "links") -> list[list[int]]:
    """The library's orders of this node's members, one per channel; a library that follows the ranks has one.

    The whole node: its rings, or its chains where the group spans nodes. A part of a node: where the group spans
    nodes, the chains with the others left out; else the best cycle through the members, both ways round, as a library
    that searches the link graph would find it.
    """
    members = positions(mask)
    if ring_order == "ranks":
        return [members]
    whole: Sequence[Sequence[int]] = node.chains if spans_nodes else node.rings
    assert whole, "a node has at least one ring"
    if not spans_nodes and len(members) < len(whole[0]):
        cycle = best_cycle(node, members)
        return [cycle if channel % 2 == 0 else cycle[::-1] for channel in range(len(whole))]
    cut = [[position for position in order if position in members] for order in whole]
    assert all(len(order) == len(members) for order in cut), "an order must name every device of the node"
    return cut


def best_cycle(node: Node, members: Sequence[int]) -> list[int]:
    """The cycle that, run both ways at once, moves most over its narrowest link; then the fewest links, then the
    lowest order."""
    if node.has_bus or node.has_switch:  # every order is as good as any other
        return list(members)
    first, *rest = members

    def badness(order: tuple[int, ...]) -> tuple[float, int, tuple[int, ...]]:
        cycle = (first, *order)
        load: defaultdict[int, float] = defaultdict(float)
        for a, b in zip(cycle, (*cycle[1:], first), strict=True):
            for wire in (*node.route(a, b), *node.route(b, a)):
                load[wire] += 1.0 / node.links[wire].bytes_per_s
        return max(load.values(), default=0.0), len(load), cycle

    return list(min(map(badness, permutations(rest)))[2])


def send(machine: Machine, out: Template, edges: Iterable[tuple[int, int]], share: float) -> None:
    for a, b in edges:
        load(out.wires, machine.node.route(a, b), share)
        same_package = a // machine.devices_per_package == b // machine.devices_per_package
        out.edges[PACKAGE if same_package else NODE] += 1


def load(wires: defaultdict[int, float], route: Sequence[int], amount: float) -> None:
    for wire in route:
        wires[wire] += amount


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pattern:
    """One activity per group; its load on links, per byte of volume, as (activity, link, weight), each pair once.

    num        number of activities (groups)
    group_of   [num_ranks] the activity of each rank
    act, link, weight  [nnz]: first the wires (num_wire_loads entries), then the memory and then the compute units
               of every rank, in rank order, with weight 1. A wire's weight is in nominal bytes: payload / share.
    peak       [num] largest payload of each activity on a wire, 1 where it uses none: at speed y an activity takes
               y * weight / peak of each link, so that its busiest wire moves y bytes/s of payload. Shares do not enter
               here: what a wide link wastes must not decide how two collectives divide a narrow one between them.
    edges      [num, 3] messages that cross a boundary (0 same package, 1 same node, 2 between nodes): the payload
               between endpoints, summed over the group, is volume * edges / divisor
    """

    num: int
    group_of: NDArray[np.int32]
    act: Ints
    link: Ints
    weight: Floats
    num_wire_loads: int
    peak: Floats
    edges: Ints
    divisor: int


def local(fabric: Fabric) -> Pattern:
    """One activity per rank on its own memory and compute units; volume: bytes, or units, as the op scales them."""
    return assemble(fabric, lay_out(fabric, np.arange(fabric.num_ranks)[:, None]), {}, {}, divisor=1)


def wait_pattern(fabric: Fabric, groups: NDArray[np.integer]) -> Pattern:
    """Who waits for whom, and no load: for messages too small to take bandwidth from anyone."""
    return assemble(fabric, lay_out(fabric, groups), {}, {}, divisor=1)


def equal_parts(fabric: Fabric, pattern: Pattern) -> tuple[Ints, Floats]:
    """The wires that a pattern loads, and what each would give its activities if all ran alike and it alone held them
    up, in bytes of volume per second. The least of them is where max-min rates begin."""
    wires = slice(0, pattern.num_wire_loads)
    load = np.bincount(pattern.link[wires], pattern.weight[wires], minlength=len(fabric.capacity))
    used = np.flatnonzero(load)
    return used, fabric.capacity[used] / load[used]


def finished(
    fabric: Fabric,
    group_of: NDArray[np.int32],
    acts: Sequence[Ints],
    links: Sequence[Ints],
    weights: Sequence[Floats],
    *,
    peak: Floats,
    edges: Ints,
    divisor: int,
) -> Pattern:
    """The pattern of loads on wires, in parts that follow one another, with the memory and the compute units of every
    rank added; `peak` is 0 where an activity uses no wire."""
    own = group_of.astype(np.int64)
    pattern = Pattern(
        num=len(peak),
        group_of=group_of,
        act=np.concatenate([*acts, own, own]),
        link=np.concatenate([*links, fabric.hbm_of, fabric.units_of]),
        weight=np.concatenate([*weights, np.ones(2 * fabric.num_ranks)]),
        num_wire_loads=sum(map(len, acts)),
        peak=np.where(peak > 0.0, peak, 1.0),
        edges=edges,
        divisor=divisor,
    )
    for array in (pattern.group_of, pattern.act, pattern.link, pattern.weight, pattern.peak, pattern.edges):
        array.flags.writeable = False
    return pattern


def masks(at: GroupLayout) -> list[int]:
    return [int(mask) for mask in np.unique(at.mask)]


def pool_loads(fabric: Fabric, act: Ints, start: Ints, end: Ints, amount: Floats) -> tuple[Ints, Ints, Floats]:
    """Loads (activity, link, weight) on pools, each (activity, link) once, of amounts from node to node."""
    return group_loads(fabric, act, fabric.group_of_node[start], fabric.group_of_node[end], amount)


def group_loads(fabric: Fabric, act: Ints, start: Ints, end: Ints, amount: Floats) -> tuple[Ints, Ints, Floats]:
    """The same of amounts from group of nodes to group."""
    act, pool, load = fabric.pools.loads(act, start, end, amount)
    return act, fabric.pool_base + pool, load


def assemble(
    fabric: Fabric,
    at: GroupLayout,
    templates: Mapping[int, Template],
    shares: Mapping[str, float],
    *,
    divisor: int,
    pools: tuple[Ints, Ints, Floats] | None = None,
    network_scale: Floats | None = None,
    edges: Ints | None = None,
) -> Pattern:
    """Write the templates out over the visits, add pools, and every rank's memory and compute units."""
    wire_share, pool_share = achieved_shares(fabric, shares)
    acts, links, weights = [], [], []
    peak = np.zeros(at.num_groups)
    total = np.zeros((at.num_groups, 3), np.int64) if edges is None else edges
    for mask, template in templates.items():
        visits = np.flatnonzero(at.mask == mask)
        act = at.group[visits]
        wires = np.array(sorted({**template.wires, **template.network}), np.int64)
        if len(wires):
            load = np.array([template.wires.get(wire, 0.0) for wire in wires.tolist()])
            to_net = np.array([template.network.get(wire, 0.0) for wire in wires.tolist()])
            if network_scale is None:
                payload = np.broadcast_to(load + to_net, (len(visits), len(wires)))
            else:
                payload = load + to_net * network_scale[visits, None]
            acts.append(np.repeat(act, len(wires)))
            links.append((at.node[visits, None] * fabric.wires_per_node + wires).ravel())
            weights.append((payload / wire_share[wires]).ravel())
            np.maximum.at(peak, act, payload.max(axis=1))
        total += np.bincount(act, minlength=at.num_groups)[:, None] * np.array(template.edges)
    if pools is not None and len(pools[0]):
        acts.append(pools[0])
        links.append(pools[1])
        weights.append(pools[2] / pool_share)
        np.maximum.at(peak, pools[0], pools[2])
    return finished(fabric, at.group_of, acts, links, weights, peak=peak, edges=total, divisor=divisor)


def achieved_shares(fabric: Fabric, shares: Mapping[str, float]) -> tuple[Floats, float]:
    """Achieved share of every local wire, and of the pools (1 where the job has none)."""
    classes = fabric.machine.link_classes
    for name, share in shares.items():
        if name not in classes:
            raise InputError(f"shares of link classes of {fabric.machine.name}: got {name!r}; {nearest(name, classes)}")
        if not 0.0 < share <= 1.0:
            raise InputError(f"share of link class {name!r}: got {share}; allowed: 0 < share <= 1")
    merged = {name: shares.get(name, link_class.share) for name, link_class in classes.items()}
    wires = np.array([merged[wire.link_class] for wire in fabric.machine.node.links], float)
    return wires, merged[fabric.pools.link_class] if fabric.num_pool_groups else 1.0


def paired(fabric: Fabric, pairs: NDArray[np.integer], there: int, back: int, shares: Mapping[str, float]) -> Pattern:
    """One message of `there` parts from the first to the second rank of each pair ([num_pairs, 2] ranks), and one of
    `back` parts the other way, both at once and full duplex; from NIC to NIC where they are on two nodes.

    The activities are the pairs, in order, and then every rank that is in none by itself, which loads no wire and never
    runs. volume: bytes of the larger message. Shares as in `ring_loads`.
    """
    common = math.gcd(there, back)
    assert common, "pairs that exchange nothing"
    there, back = there // common, back // common
    most, num_pairs = max(there, back), len(pairs)
    group_of = np.full(fabric.num_ranks, -1, np.int32)
    group_of[pairs] = np.arange(num_pairs, dtype=np.int32)[:, None]
    idle = np.flatnonzero(group_of < 0)
    group_of[idle] = np.arange(num_pairs, num_pairs + len(idle), dtype=np.int32)
    node, position = np.divmod(fabric.device_of[pairs], fabric.machine.devices_per_node)
    acts, links, weights = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
    peak = np.zeros(num_pairs + len(idle))
    wire_share, pool_share = achieved_shares(fabric, shares)
    within = node[:, 0] == node[:, 1]
    kinds = np.unique(np.column_stack([within, position]), axis=0)  # few: positions, never nodes or ranks
    for in_node, first, second in kinds.tolist():
        mine = np.flatnonzero((within == in_node) & (position == (first, second)).all(axis=1))
        for end, loads in _loads(fabric, in_node, first, second, there / most, back / most).items():
            wires, payload = np.array(list(loads), np.int64), np.array(list(loads.values()))
            acts.append(np.repeat(mine, len(wires)))
            links.append((node[mine, end, None] * fabric.wires_per_node + wires).ravel())
            weights.append(np.tile(payload / wire_share[wires], len(mine)))
            peak[mine] = np.maximum(peak[mine], payload.max(initial=0.0))
    pools = _pools(fabric, node, there / most, back / most)
    acts.append(pools[0])
    links.append(pools[1])
    weights.append(pools[2] / pool_share)
    np.maximum.at(peak, pools[0], pools[2])
    edges = np.zeros((len(peak), 3), np.int64)
    per_package = fabric.machine.devices_per_package
    near = position[:, 0] // per_package == position[:, 1] // per_package
    boundary = np.where(within, np.where(near, PACKAGE, NODE), NETWORK)
    edges[np.arange(num_pairs), boundary] = there + back
    return finished(fabric, group_of, acts, links, weights, peak=peak, edges=edges, divisor=most)


def _loads(
    fabric: Fabric, within: int, first: int, second: int, there: float, back: float
) -> dict[int, dict[int, float]]:
    """Payload on the local wires of the node of either end (0 or 1; both in 0 where it is one node), by position."""
    machine_node = fabric.machine.node
    if within:
        ways = [(0, machine_node.route(first, second), there), (0, machine_node.route(second, first), back)]
    else:
        ways = [
            (0, machine_node.to_network(first), there),
            (0, machine_node.from_network(first), back),
            (1, machine_node.from_network(second), there),
            (1, machine_node.to_network(second), back),
        ]
    out: dict[int, dict[int, float]] = {}
    for end, wires, amount in ways:
        for wire in wires if amount else ():
            loads = out.setdefault(end, {})
            loads[wire] = loads.get(wire, 0.0) + amount
    return out


def _pools(fabric: Fabric, node: Ints, there: float, back: float) -> tuple[Ints, Ints, Floats]:
    act = np.arange(len(node))
    ways = [(node[:, 0], node[:, 1], there), (node[:, 1], node[:, 0], back)]
    used = [(a, b, np.full(len(node), amount)) for a, b, amount in ways if amount]
    source, target, amount = (np.concatenate(parts) for parts in zip(*used, strict=True))
    return pool_loads(fabric, np.tile(act, len(used)), source, target, amount)
