"""Load patterns: the load of ops on every link, per byte of volume, with one activity per group of ranks; and functions
that build patterns.

A pattern describes the steady state only: start-up latencies, and rate limits of a library's protocol, belong to the
op. A pattern is built from templates of one node, which are applied to arrays of nodes.
"""

from __future__ import annotations

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
from simfrontier.core.network.fabric import Fabric

RingOrder = Literal["links", "ranks"]
PACKAGE, NODE, NETWORK = 0, 1, 2  # the boundaries at which endpoint payload is counted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupLayout:
    """The groups of a pattern as a list of visits, sorted by group, then by node. A visit is a pair of a group and a
    node on which the group has ranks.

    group_of   [num_ranks]   group of each rank
    group      [num_visits]  the group of the visit
    node       [num_visits]  the node visited
    mask       [num_visits]  bit mask of the device positions of the node that belong to the group; Python integers on
                             nodes of more devices than an int64 has bits
    members    [num_visits]  number of these devices
    following  [num_visits]  index of the visit of the same group to its next node, cyclically
    order      [num_visits]  index of the visit within its group
    """

    num_groups: int
    size: int
    group_of: NDArray[np.int32]
    group: Ints
    node: Ints
    mask: Ints
    members: Ints
    following: Ints
    order: Ints

    @property
    def spans_nodes(self) -> bool:
        """Whether the groups span several nodes; the same for all groups of a pattern."""
        return len(self.group) > self.num_groups


def lay_out(fabric: Fabric, groups: NDArray[np.integer]) -> GroupLayout:
    """Return the layout of groups ([num_groups, size] ranks, every rank in exactly one group) as visits to nodes."""
    num_groups, size = groups.shape
    assert groups.size == fabric.num_ranks, "the groups of a pattern hold every rank once"
    group_of = np.full(fabric.num_ranks, -1, np.int32)
    group_of[groups.ravel()] = np.repeat(np.arange(num_groups, dtype=np.int32), size)
    assert group_of.min() >= 0, "the groups of a pattern hold every rank once"

    node, position = np.divmod(np.sort(fabric.device_of[groups], axis=1), fabric.machine.devices_per_node)
    first = np.ones((num_groups, size), bool)  # the member opens a visit
    first[:, 1:] = node[:, 1:] != node[:, :-1]
    starts = np.flatnonzero(first)
    per_node = fabric.machine.devices_per_node
    bits = np.array([1 << each for each in range(per_node)], np.int64 if per_node < 64 else object)
    mask = np.bitwise_or.reduceat(bits[position.ravel()], starts)
    group = starts // size
    opens = np.searchsorted(group, np.arange(num_groups))  # first visit of each group
    num_visits = np.diff(np.append(opens, len(group)))
    assert (num_visits == 1).all() or (num_visits > 1).all(), "groups within a node and over nodes in one pattern"
    following = np.arange(1, len(group) + 1)
    following[opens + num_visits - 1] = opens
    return GroupLayout(
        num_groups=num_groups,
        size=size,
        group_of=group_of,
        group=group,
        node=node.ravel()[starts],
        mask=mask,
        members=np.diff(np.append(starts, groups.size)),
        following=following,
        order=np.arange(len(group)) - opens[group],
    )


@dataclass(slots=True, kw_only=True)
class Template:
    """Loads of one group on the wires of one node, and the group's messages from this node by boundary.

    wires    wire of the node -> bytes per byte of volume, for messages inside the node
    network  wire of the node -> bytes per byte of volume, for messages to and from the network
    edges    number of messages by boundary (same package, same node, between nodes)
    """

    wires: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    network: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    edges: list[int] = field(default_factory=lambda: [0, 0, 0])


def positions(mask: int) -> list[int]:
    """Return the indices of the set bits of a mask, in ascending order."""
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def orders(node: Node, mask: int, spans_nodes: bool, ring_order: RingOrder = "links") -> list[list[int]]:
    """Return for each channel of the library the order in which it visits the devices of a group on one node; one order
    if the library follows the rank order. `mask`: bit mask of the group's device positions.

    If the group has all devices of the node: the node's rings, or its chains if the group spans nodes. If the group has
    a part of the devices: the chains without the other devices if the group spans nodes; otherwise the best cycle
    through the group's devices, in both directions, as a library that searches the link graph would find it.
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
    """Return the cycle through the devices that has the highest bottleneck bandwidth if it runs in both directions at
    once. Ties go to the cycle with the fewest links, then to the lowest order."""
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
    """Load pattern: one activity per group of ranks, and the load of activities on links, per byte of volume, as
    triples (activity, link, weight), with each (activity, link) pair once.

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
    """Return the pattern of one activity per rank, which loads the memory and compute units of that rank only; its
    volume is in bytes or units, as scaled by the op."""
    return assemble(fabric, lay_out(fabric, np.arange(fabric.num_ranks)[:, None]), {}, {}, divisor=1)


def wait_pattern(fabric: Fabric, groups: NDArray[np.integer]) -> Pattern:
    """Return a pattern without load on wires, in which the ranks of each group only wait for each other; used for
    messages too small to take noticeable bandwidth."""
    return assemble(fabric, lay_out(fabric, groups), {}, {}, divisor=1)


def equal_parts(fabric: Fabric, pattern: Pattern) -> tuple[Ints, Floats]:
    """Return the wires that a pattern loads, and for each the rate, in bytes of volume per second, of the pattern's
    activities if all had equal rates and this wire were the only limit. The minimum is the starting point of max-min
    rates."""
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
    """Return the pattern with these loads on wires (`acts`, `links` and `weights`, each in consecutive parts) and the
    loads on the memory and compute units of every rank. `peak` is 0 for an activity that uses no wire."""
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
    """Return the loads on pools as arrays (activity, link, weight), with each (activity, link) pair once. Activity
    act[i] sends amount[i] from node start[i] to node end[i]."""
    return group_loads(fabric, act, fabric.group_of_node[start], fabric.group_of_node[end], amount)


def group_loads(fabric: Fabric, act: Ints, start: Ints, end: Ints, amount: Floats) -> tuple[Ints, Ints, Floats]:
    """Return the loads on pools as `pool_loads` does, with network groups instead of nodes in `start` and `end`."""
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
    """Return the pattern of the groups' loads: apply the template of each visit to its node, and add the loads on pools
    and on every rank's memory and compute units."""
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
    """Return the achieved share of the nominal bandwidth of every wire of a node, and that of the pools (1 in a job
    without pools)."""
    classes = fabric.machine.link_classes
    for name, share in shares.items():
        if name not in classes:
            raise InputError(f"shares of link classes of {fabric.machine.name}: got {name!r}; {nearest(name, classes)}")
        if not 0.0 < share <= 1.0:
            raise InputError(f"share of link class {name!r}: got {share}; allowed: 0 < share <= 1")
    merged = {name: shares.get(name, link_class.share) for name, link_class in classes.items()}
    wires = np.array([merged[wire.link_class] for wire in fabric.machine.node.links], float)
    return wires, merged[fabric.pools.link_class] if fabric.num_pool_groups else 1.0
