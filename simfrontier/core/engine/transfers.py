"""Lowering of a pricing's collectives to transfers, by the algorithms that the library chose."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.errors import InputError
from simfrontier.core.collectives import Library, Lowered, LoweredSchedule, Recipe, algorithm, messages_of
from simfrontier.core.cost import Pricing
from simfrontier.core.network import Fabric, orders
from simfrontier.core.program import Collective


def lowered_schedule(pricing: Pricing, digest: str) -> LoweredSchedule:
    """Return the recipes of every distinct collective in the pricing's schedule, in order of first appearance."""
    ops = dict.fromkeys(op for op in pricing.schedule.ops if isinstance(op, Collective))
    return LoweredSchedule(digest=digest, recipes=tuple(recipes_of(op, pricing) for op in ops))


def recipes_of(op: Collective, pricing: Pricing) -> tuple[Recipe, ...]:
    """Return the recipes by which the groups of a collective execute it, one for each group, in the mesh's order of
    groups."""
    groups = pricing.schedule.mesh.groups(op.axes)
    message = messages_of(op, pricing.schedule.tensors, pricing.schedule.mesh)[0]
    name = pricing.algorithms[op.number]
    made = (recipe(pricing.fabric, group, name, pricing.library, message.num_bytes) for group in groups)
    if algorithm(name).is_reversed(pricing.library, op.kind):
        return tuple(replace(each, orders=tuple(order[::-1] for order in each.orders)) for each in made)
    return tuple(made)


def recipe(fabric: Fabric, ranks: NDArray[np.integer], name: str, library: Library, num_bytes: int) -> Recipe:
    """Return the recipe by which the group `ranks` executes a collective with an algorithm: for each channel, the
    library's order of the group's members, node after node. Members are denoted by their index in `ranks`.

    Raises InputError for an algorithm without a law for single messages.
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


@dataclass(frozen=True, slots=True, eq=False)
class TransferLists:
    """Parallel lists over the transfers of one collective.

    needs       number of events before a transfer starts: the arrivals of transfers on which it depends, the start of
                the previous transfer on the same connection between two members, and its members' readiness for the
                message
    followers   transfers that wait for this transfer's arrival
    following   the next transfer on the same connection, or -1
    of_member   for each member of the group, the transfers that it sends or receives, ascending
    """

    src: list[int]
    dst: list[int]
    channel: list[int]
    needs: list[int]
    followers: list[list[int]]
    following: list[int]
    of_member: list[list[int]]
    lowered: Lowered

    @classmethod
    def of(cls, lowered: Lowered, apart: bool, in_flight: int | None) -> TransferLists:
        """Return the lists of a lowered collective. `apart`: whether each channel has its own connection between two
        members, so that the channels do not wait for each other; `in_flight`: the maximum number of messages in flight
        on one connection (None: unlimited)."""
        count = len(lowered.transfers)
        src = [transfer.src for transfer in lowered.transfers]
        dst = [transfer.dst for transfer in lowered.transfers]
        channel = [transfer.channel for transfer in lowered.transfers]
        needs = [len(waits) + 1 + (a != b) for waits, a, b in zip(lowered.after, src, dst, strict=True)]
        followers: list[list[int]] = [[] for _ in range(count)]
        for index, waits in enumerate(lowered.after):
            for before in waits:
                followers[before].append(index)
        following = [-1] * count
        lines: dict[tuple[int, int, int], list[int]] = {}
        of_member: list[list[int]] = [[] for _ in range(lowered.size)]
        for index, pair in enumerate(zip(src, dst, strict=True)):
            line = lines.setdefault((*pair, channel[index] if apart else 0), [])
            place = len(line)
            line.append(index)
            if place:
                following[line[-2]] = index
                needs[index] += 1
                if in_flight is not None and place >= in_flight:
                    followers[line[place - in_flight]].append(index)
                    needs[index] += 1
            for member in dict.fromkeys(pair):
                of_member[member].append(index)
        return cls(src, dst, channel, needs, followers, following, of_member, lowered)

    def sizes(self, num_bytes: int, unit_bytes: int) -> list[float]:
        """Return the bytes of every transfer, for a message of `num_bytes` bytes with elements of `unit_bytes`
        bytes."""
        pieces = 1 if self.lowered.kind == "all_reduce" else self.lowered.size
        assert num_bytes % (pieces * unit_bytes) == 0, (num_bytes, pieces, unit_bytes)
        begins = np.array(self.lowered.offsets(num_bytes // (pieces * unit_bytes)), np.int64) * unit_bytes
        chunk = np.array([transfer.chunk for transfer in self.lowered.transfers], np.int64)
        width = np.array([transfer.count for transfer in self.lowered.transfers], np.int64)
        return [float(size) for size in (begins[chunk + width] - begins[chunk]).tolist()]
