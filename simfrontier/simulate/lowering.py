"""What the library chose, as recipes: by which algorithm and in which orders every group carries every collective."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simfrontier.collectives import Algorithm, Library, RingOrder, messages_of
from simfrontier.collectives.lowering.program import LoweredSchedule
from simfrontier.collectives.lowering.recipe import Recipe
from simfrontier.errors import InputError
from simfrontier.network import Fabric
from simfrontier.network.template import orders
from simfrontier.schedule.ir import Collective, CollectiveKind
from simfrontier.simulate.pricing import Cluster


def lowered_schedule(cluster: Cluster, digest: str) -> LoweredSchedule:
    """The recipes of every distinct collective of the cluster's schedule, in order of appearance (equal ones once)."""
    ops = dict.fromkeys(op for op in cluster.schedule.distinct_ops() if isinstance(op, Collective))
    return LoweredSchedule(digest=digest, recipes=tuple(recipes_of(op, cluster) for op in ops))


def recipes_of(op: Collective, cluster: Cluster) -> tuple[Recipe, ...]:
    """How each group carries the op, groups as the mesh numbers them."""
    groups = cluster.schedule.mesh.groups(op.axes)
    message = messages_of(op, cluster.schedule.tensors, cluster.schedule.mesh)[0]
    algorithm = cluster.algorithms[id(op)]
    made = (recipe(cluster.fabric, group, algorithm, cluster.library, message.num_bytes) for group in groups)
    if cluster.library.reduces_backwards and algorithm in ("ring", "ring_twice") and op.kind != "all_gather":
        return tuple(replace(each, orders=tuple(order[::-1] for order in each.orders)) for each in made)
    return tuple(made)


def wire_kind(op: Collective) -> CollectiveKind:
    """What is lowered: a coded reduction moves by all-to-all and is summed where it arrives."""
    return "all_to_all" if op.is_added_later else op.kind


def recipe(
    fabric: Fabric, ranks: NDArray[np.integer], algorithm: Algorithm, library: Library, num_bytes: int
) -> Recipe:
    """How a group of these ranks (members in this order) carries a message: the library's orders of each node's
    members, node after node, members by their number in the group.

    Direct messages have one order, which deals the nodes' members out in turn: a member sends to those that follow it,
    so that neighbours do not all begin with the same NIC (assumed). Raises InputError for two levels, which are only
    modelled as a whole.
    """
    if algorithm == "two_level":
        raise InputError(
            f"library {library.name}: calls in two levels are not lowered to single messages; "
            "allowed: fidelity analytic or flow"
        )
    per_node = fabric.machine.devices_per_node
    devices = fabric.device_of[ranks]
    member = {int(device): number for number, device in enumerate(devices)}
    nodes: dict[int, int] = {}
    for device in sorted(member):
        nodes[device // per_node] = nodes.get(device // per_node, 0) | 1 << device % per_node
    follows: RingOrder = library.ring_order
    if algorithm in ("tree", "direct"):  # as the fluid patterns have it
        follows = "links" if algorithm == "tree" else "ranks"
    by_node = [
        [[member[node * per_node + position] for position in order] for order in found]
        for node, mask in nodes.items()
        for found in [orders(fabric.machine.node, mask, len(nodes) > 1, follows)]
    ]
    channels = list(zip(*by_node, strict=True))  # of each, its order on every node
    if algorithm == "direct":
        channels = [tuple(zip(*channels[0], strict=True))]
    trees = 2 if algorithm == "tree" and len(nodes) > 1 else 1
    return Recipe(
        algorithm=algorithm,
        orders=tuple(tuple(one for part in parts for one in part) for parts in channels),
        per_node=len(ranks) // len(nodes),
        slices=library.slices(algorithm, num_bytes / len(channels) / trees, len(nodes)),
        least_elements=library.least_elements if algorithm in ("ring", "ring_twice") else 1,
    )
