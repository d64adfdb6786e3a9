"""What ops over groups of ranks load on every link, per byte of volume: how a pattern is put together.

Steady state only: start-up latencies, and the caps that a library's protocol sets, belong to the op. A pattern is
built from templates of one node, written out over arrays of nodes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats, Ints
from simfrontier.base.errors import InputError, nearest
from simfrontier.core.network.fabric import Fabric
from simfrontier.core.network.layout import GroupLayout, lay_out
from simfrontier.core.network.template import Template


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
