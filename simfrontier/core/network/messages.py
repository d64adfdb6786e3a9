"""Load patterns of explicit messages between the ranks of groups, with the same messages in every group."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.network.fabric import Fabric
from simfrontier.core.network.pattern import NETWORK, NODE, PACKAGE, Pattern, achieved_shares, finished, pool_loads
from simfrontier.core.network.pools import summed


def messages_loads(
    fabric: Fabric,
    groups: NDArray[np.integer],
    messages: NDArray[np.int64],
    divisor: int,
    shares: Mapping[str, float],
) -> Pattern:
    """Return the load pattern of the same messages in every group ([num_groups, size] ranks). `messages` [num_messages,
    3]: index of the source rank in the group, index of the target rank, and size in units of volume / divisor. All
    messages are in flight at once; between nodes they travel from NIC to NIC.

    The activities are the groups, in order, followed by one idle activity, without load on wires, for each rank that is
    in no group.
    """
    group_of = np.full(fabric.num_ranks, -1, np.int32)
    group_of[groups] = np.arange(len(groups), dtype=np.int32)[:, None]
    idle = np.flatnonzero(group_of < 0)
    num = len(groups) + len(idle)
    group_of[idle] = np.arange(len(groups), num, dtype=np.int32)
    source, target, parts = messages.T
    node, position = np.divmod(fabric.device_of[groups], fabric.machine.devices_per_node)
    act = np.repeat(np.arange(len(groups)), len(messages))
    start, end = node[:, source].ravel(), node[:, target].ravel()
    first, second = position[:, source].ravel(), position[:, target].ravel()
    counts = np.tile(parts, len(groups))
    within = start == end
    key, payload = _wires(fabric, act, start, end, (within, first, second), counts / divisor)
    wire_share, pool_share = achieved_shares(fabric, shares)
    carried_by, link = np.divmod(key, len(fabric.capacity))
    weight = payload / wire_share[link % fabric.wires_per_node]
    peak = np.zeros(num)
    np.maximum.at(peak, carried_by, payload)
    pools = pool_loads(fabric, act[~within], start[~within], end[~within], counts[~within] / divisor)
    np.maximum.at(peak, pools[0], pools[2])
    edges = np.zeros((num, 3), np.int64)
    per_package = fabric.machine.devices_per_package
    near = np.where(first // per_package == second // per_package, PACKAGE, NODE)
    np.add.at(edges, (act, np.where(within, near, NETWORK)), counts)
    return finished(
        fabric,
        group_of,
        [carried_by, pools[0]],
        [link, pools[1]],
        [weight, pools[2] / pool_share],
        peak=peak,
        edges=edges,
        divisor=divisor,
    )


def paired(fabric: Fabric, pairs: NDArray[np.integer], there: int, back: int, shares: Mapping[str, float]) -> Pattern:
    """Return the load pattern of one message of `there` bytes from the first to the second rank of each pair
    ([num_pairs, 2] ranks) and, at the same time (full duplex), one of `back` bytes in the opposite direction. The
    pattern's volume is the size of the larger message, in bytes."""
    common = math.gcd(there, back)
    messages = [(0, 1, there // common), (1, 0, back // common)]
    sent = np.array([each for each in messages if each[2]], np.int64)
    return messages_loads(fabric, pairs, sent, max(there, back) // common, shares)


def _wires(
    fabric: Fabric, act: Ints, start: Ints, end: Ints, kinds: tuple[NDArray[np.bool_], Ints, Ints], payload: Floats
) -> tuple[Ints, Floats]:
    """Return the keys activity * num_links + wire, each once, and the payload of each key. The loop is over the few
    distinct pairs of positions within nodes, never over messages."""
    node, num_links = fabric.machine.node, len(fabric.capacity)
    keys, amounts = [np.empty(0, np.int64)], [np.empty(0)]
    of_kind = np.column_stack(kinds)
    for kind in np.unique(of_kind, axis=0).tolist():
        within, first, second = kind
        mine = np.flatnonzero((of_kind == kind).all(axis=1))
        routes = [(start, node.route(first, second))]
        if not within:
            routes = [(start, node.to_network(first)), (end, node.from_network(second))]
        for at, route in routes:
            links = at[mine, None] * fabric.wires_per_node + np.array(route, np.int64)
            keys.append((act[mine, None] * num_links + links).ravel())
            amounts.append(np.repeat(payload[mine], len(route)))
    return summed(np.concatenate(keys), np.concatenate(amounts))
