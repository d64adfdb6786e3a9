"""What messages between pairs of ranks load, where the other ranks have no part: the boundaries of a pipeline."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.network.fabric import Fabric
from simfrontier.core.network.pattern import Pattern, achieved_shares, finished, pool_loads
from simfrontier.core.network.template import NETWORK, NODE, PACKAGE


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
