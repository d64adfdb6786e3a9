"""What the library chose, as recipes: by which algorithm and in which orders every group carries every collective."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.errors import InputError
from simfrontier.core.collectives import Library, LoweredSchedule, Recipe, algorithm, messages_of
from simfrontier.core.cost import Pricing
from simfrontier.core.network import Fabric, orders
from simfrontier.core.program import Collective


def lowered_schedule(pricing: Pricing, digest: str) -> LoweredSchedule:
    """The recipes of every distinct collective of the pricing's schedule, in order of appearance (equal ones once)."""
    ops = dict.fromkeys(op for op in pricing.schedule.distinct_ops() if isinstance(op, Collective))
    return LoweredSchedule(digest=digest, recipes=tuple(recipes_of(op, pricing) for op in ops))


def recipes_of(op: Collective, pricing: Pricing) -> tuple[Recipe, ...]:
    """How each group carries the op, groups as the mesh numbers them."""
    groups = pricing.schedule.mesh.groups(op.axes)
    message = messages_of(op, pricing.schedule.tensors, pricing.schedule.mesh)[0]
    name = pricing.algorithms[op.number]
    made = (recipe(pricing.fabric, group, name, pricing.library, message.num_bytes) for group in groups)
    if algorithm(name).is_reversed(pricing.library, op.kind):
        return tuple(replace(each, orders=tuple(order[::-1] for order in each.orders)) for each in made)
    return tuple(made)


def recipe(fabric: Fabric, ranks: NDArray[np.integer], name: str, library: Library, num_bytes: int) -> Recipe:
    """How a group of these ranks (members in this order) carries a message by an algorithm: the library's orders of
    each node's members, node after node, members by their number in the group.

    Raises InputError for an algorithm whose calls have no law of single messages.
    """
    by = algorithm(name)
    if by.not_as_chunks:
        raise InputError(f"library {library.name}: {by.not_as_chunks}")
    per_node = fabric.machine.devices_per_node
    devices = fabric.device_of[ranks]
    member = {int(device): number for number, device in enumerate(devices)}
    nodes: dict[int, int] = {}
    for device in sorted(member):
        nodes[device // per_node] = nodes.get(device // per_node, 0) | 1 << device % per_node
    by_node = [
        [[member[node * per_node + position] for position in order] for order in result]
        for node, mask in nodes.items()
        for result in [orders(fabric.machine.node, mask, len(nodes) > 1, by.ring_order(library))]
    ]
    channels = by.channels(list(zip(*by_node, strict=True)))  # of each, its order on every node
    return Recipe(
        algorithm=name,
        orders=tuple(channels),
        per_node=len(ranks) // len(nodes),
        slices=by.slices(library, num_bytes / len(channels) / by.lanes(len(nodes)), len(nodes)),
        least_elements=by.least_elements(library),
    )
