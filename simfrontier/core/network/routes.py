"""The links that a message passes from one device of a job to another."""

from __future__ import annotations

from simfrontier.core.network.fabric import Fabric


def route(fabric: Fabric, source: int, target: int) -> tuple[int, ...]:
    """Link ids in order, from device `source` to device `target`; () to itself.

    Between dragonfly groups the direct pool is taken: the share of traffic that goes by way of a third group, which
    fluid patterns count, is left out. Between leaves of a fat tree: up from the one, down to the other.
    """
    machine, per_node = fabric.machine, fabric.machine.devices_per_node
    (a, here), (b, there) = divmod(source, per_node), divmod(target, per_node)
    first, last = a * fabric.wires_per_node, b * fabric.wires_per_node
    if a == b:
        return tuple(first + wire for wire in machine.node.route(here, there))
    start, end = fabric.group_of_node[[a, b]].tolist()
    pools = tuple(fabric.pool_base + pool for pool in fabric.pools.route(start, end))
    up = tuple(first + wire for wire in machine.node.to_network(here))
    down = tuple(last + wire for wire in machine.node.from_network(there))
    return (*up, *pools, *down)
