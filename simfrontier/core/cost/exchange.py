"""What an exchange takes: messages between two ranks, both ways at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simfrontier.base.errors import InputError
from simfrontier.core.collectives import GroupShape, Library, algorithm, exchanged_bytes
from simfrontier.core.cost.call import NO_WORK, OpWork, PricedOp
from simfrontier.core.cost.folded_pricing import FoldedPricing
from simfrontier.core.cost.role_assignment import pairs_of
from simfrontier.core.network import Fabric, Pattern, paired
from simfrontier.core.program import DIRECT, Exchange, Schedule


def pair_shape(edges: Sequence[int]) -> GroupShape:
    """Of two ranks whose messages cross these boundaries (same package, same node, between nodes)."""
    return GroupShape(size=2, num_nodes=1 + bool(edges[2]), num_packages=2 - bool(edges[0]))


def priced_exchange(pricing: FoldedPricing, op: Exchange) -> PricedOp:
    """Messages between two ranks, priced as direct messages are: an all-to-all of two members by the library's law,
    its start-up once for both directions, at the share of the links that direct messages reach.

    Assumed: both directions go at once, full duplex, and the smaller message ends with the larger; a send and a
    receive that are issued together start up once. No table of measured calls holds for them.
    """
    there, back = exchanged_bytes(op, pricing.schedule.tensors, pricing.schedule.mesh)
    key, volume = pricing.key_of(op), float(max(there, back))
    folded, alone = pricing.folded(key), pricing.sent_per_s(key, (True,) * len(pricing.folding.count(key)))
    works = []
    each = zip(folded.peak.tolist(), alone.tolist(), folded.edges.tolist(), strict=True)
    for cls, (peak, sent_per_s, edges) in enumerate(each):
        if not any(edges):  # a rank that is in no pair
            works.append(NO_WORK)
            continue
        if not sent_per_s:
            works.append(pricing.still(key, cls, volume * peak))
            continue
        latency = exchange_latency_s(volume, pair_shape(edges), pricing.library, sent_per_s)
        column = pricing.column(key, cls)
        load = column.wire + column.hbm * ((there + back) / volume)
        flow = pricing.intern((key, cls), column.rows, load, math.inf, pricing.reserved_units(column))
        works.append(OpWork(latency, volume * peak, sent_per_s * peak, flow, pricing.starting(key, cls, latency)))
    return PricedOp(key, tuple(works))


def exchange_latency_s(num_bytes: float, shape: GroupShape, library: Library, sent_per_s: float) -> float:
    """What an exchange takes beyond its larger message over the rate at which its ranks send."""
    return algorithm(DIRECT).latency_s(library, "all_to_all", num_bytes, shape, sent_per_s)


def exchange_s(num_bytes: float, shape: GroupShape, library: Library, sent_per_s: float) -> float:
    """Time of an exchange, nothing else running."""
    return exchange_latency_s(num_bytes, shape, library, sent_per_s) + num_bytes / sent_per_s


def pattern_of_pairs(
    op: Exchange, schedule: Schedule, sizes: tuple[int, int], fabric: Fabric, library: Library
) -> Pattern:
    """The pattern of an exchange. Raises InputError where its messages have no bytes."""
    if not any(sizes):
        raise InputError(f"schedule: exchange {op.name}: its messages have no bytes")
    return paired(fabric, pairs_of(op, schedule), *sizes, algorithm(DIRECT).shares_on(library, fabric.machine))
