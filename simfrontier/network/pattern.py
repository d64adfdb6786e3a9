"""What a collective over groups of ranks loads on every link, per byte of volume: ring, direct, tree, local.

Steady state only: start-up latencies, and the caps that a library's protocol sets, belong to the op. A pattern is
built from templates of one node, written out over arrays of nodes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfrontier.collectives import RingOrder
from simfrontier.collectives.double_tree import double_tree
from simfrontier.errors import InputError, nearest
from simfrontier.network.fabric import Fabric
from simfrontier.network.layout import Layout, lay_out
from simfrontier.network.template import NETWORK, Template, direct_template, ring_template, tree_template

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


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


def ring(
    fabric: Fabric, groups: NDArray[np.integer], shares: Mapping[str, float], ring_order: RingOrder = "links"
) -> Pattern:
    """Rings over [num_groups, size] ranks, in the library's channel orders, members sorted by (node, position).

    volume: bytes that a rank sends, (n-1)/n of the whole for an all-gather or a reduce-scatter. Every channel carries
    1/num_channels of it. Groups lie within nodes, or all span nodes; then one chain per node is joined to the next.
    shares: link class -> share of nominal bandwidth that the library reaches; the machine's own where none is given.
    """
    at = lay_out(fabric, groups)
    if at.size == 1:
        return _assemble(fabric, at, {}, shares, divisor=1)
    machine, spans = fabric.machine, at.spans_nodes
    templates = {mask: ring_template(machine, mask, spans, ring_order) for mask in _masks(at)}
    pools = pool_loads(fabric, at.group, at.node, at.node[at.following], np.ones(len(at.node)))
    channels = len(machine.node.chains if spans else machine.node.rings) if ring_order == "links" else 1
    return _assemble(fabric, at, templates, shares, divisor=channels, pools=pools)


def direct(fabric: Fabric, groups: NDArray[np.integer], shares: Mapping[str, float]) -> Pattern:
    """All-to-all by direct messages: every member sends volume/(n-1) to each other one, from its NIC to the peer's.

    Counted, never enumerated: a template for the pairs of a node, the rest in sums per member and per group of nodes
    between which pools lie.
    volume: bytes that a rank sends, (n-1)/n of what it holds. Groups and shares as in `ring`.
    """
    at = lay_out(fabric, groups)
    if at.size == 1:
        return _assemble(fabric, at, {}, shares, divisor=1)
    templates = {mask: direct_template(fabric.machine, mask, at.size) for mask in _masks(at)}
    return _assemble(fabric, at, templates, shares, divisor=at.size - 1, pools=_all_pairs(fabric, at))


def tree(fabric: Fabric, groups: NDArray[np.integer], shares: Mapping[str, float]) -> Pattern:
    """All-reduce on two complementary binary trees over the nodes, each for half of the vector; chains inside nodes.

    volume: the bytes S of the vector, of which each of the C channels (chain orders) carries S/C. In a node the
    partial sum runs from a chain's tail to its head, and the result back: S/C each way on every edge. The heads
    exchange with the network: for a tree in which its node has p parents (0 or 1) and c children, a head sends
    (p + c) S/2C (p upwards to reduce, c downwards to broadcast) and receives as much. A group within one node has
    the chains only (its rings, cut open). Source of the trees: NCCL, src/graph/trees.cc.
    """
    at = lay_out(fabric, groups)
    if at.size == 1:
        return _assemble(fabric, at, {}, shares, divisor=1)
    machine, spans = fabric.machine, at.spans_nodes
    templates = {mask: tree_template(machine, mask, spans) for mask in _masks(at)}
    channels = len(machine.node.chains if spans else machine.node.rings)
    if not spans:
        return _assemble(fabric, at, templates, shares, divisor=2 * channels)
    opens = np.arange(len(at.group)) - at.order
    num_nodes = np.bincount(at.group)[at.group]
    neighbours = np.zeros(len(at.group))
    source, target = [], []
    for parent in double_tree(at.order, num_nodes):
        child = np.flatnonzero(parent >= 0)
        above = opens[child] + parent[child]
        neighbours[child] += 1.0
        neighbours += np.bincount(above, minlength=len(neighbours))
        source += [child, above]
        target += [above, child]
    start, end = np.concatenate(source), np.concatenate(target)
    pools = pool_loads(fabric, at.group[start], at.node[start], at.node[end], np.full(len(start), 0.5))
    edges = np.zeros((at.num_groups, 3), np.int64)
    edges[:, NETWORK] = np.bincount(at.group[start]) * channels
    return _assemble(
        fabric, at, templates, shares, divisor=2 * channels, pools=pools, network_scale=neighbours / 2.0, edges=edges
    )


def local(fabric: Fabric) -> Pattern:
    """One activity per rank on its own memory and compute units; volume: bytes, or units, as the op scales them."""
    return _assemble(fabric, lay_out(fabric, np.arange(fabric.num_ranks)[:, None]), {}, {}, divisor=1)


def meeting(fabric: Fabric, groups: NDArray[np.integer]) -> Pattern:
    """Who waits for whom, and no load: for messages too small to take bandwidth from anyone."""
    return _assemble(fabric, lay_out(fabric, groups), {}, {}, divisor=1)


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


def _masks(at: Layout) -> list[int]:
    return [int(mask) for mask in np.unique(at.mask)]


def pool_loads(fabric: Fabric, act: Ints, start: Ints, end: Ints, amount: Floats) -> tuple[Ints, Ints, Floats]:
    """Loads (activity, link, weight) on pools, each (activity, link) once, of amounts from node to node."""
    per_group = fabric.pools.nodes_per_group
    act, pool, load = fabric.pools.loads(act, start // per_group, end // per_group, amount)
    return act, fabric.pool_base + pool, load


def _all_pairs(fabric: Fabric, at: Layout) -> tuple[Ints, Ints, Floats] | None:
    """Pool loads where each member sends 1/(size-1) to each other: by the numbers of members per group of nodes."""
    num_groups, per_group = fabric.pools.num_groups, fabric.pools.nodes_per_group
    if not num_groups:
        return None
    seat, which = np.unique(at.group * num_groups + at.node // per_group, return_inverse=True)
    act, group = np.divmod(seat, num_groups)
    members = np.bincount(which, np.bitwise_count(at.mask))
    # every (seat, seat) pair of the same activity: seat i is repeated as often as its activity has seats
    num_seats = np.bincount(act, minlength=at.num_groups)
    first_seat = np.cumsum(num_seats) - num_seats
    one = np.repeat(np.arange(len(seat)), num_seats[act])
    begins = np.cumsum(num_seats[act]) - num_seats[act]
    other = first_seat[act[one]] + np.arange(len(one)) - begins[one]
    amount = members[one] * members[other] / (at.size - 1)
    return pool_loads(fabric, act[one], group[one] * per_group, group[other] * per_group, amount)


def _assemble(
    fabric: Fabric,
    at: Layout,
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
