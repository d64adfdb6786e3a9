"""Ring algorithms: every channel sends its share of each piece around a ring, in the channel's own order of the
ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfrontier.core.collectives.algorithms.base import Algorithm
from simfrontier.core.collectives.laws import GroupShape, RingStep, StepLaw, either, low_latency_step, simple_step
from simfrontier.core.collectives.transfers import Lowered, Recipe, Transfer
from simfrontier.core.machine import Machine
from simfrontier.core.network import (
    NETWORK,
    Fabric,
    Pattern,
    RingOrder,
    Template,
    assemble,
    lay_out,
    load,
    masks,
    orders,
    pool_loads,
    send,
)
from simfrontier.core.program import RING, RING_TWICE, CollectiveKind

if TYPE_CHECKING:
    from simfrontier.core.collectives.library import Library

GATHERS_AND_SUMS: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter", "all_reduce")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring(Algorithm):
    """Ring algorithm. All-gather: piece m travels n - 1 hops, starting at rank m. Reduce-scatter: piece m starts at the
    rank after m, gathers one contribution at every hop and ends at rank m. All-reduce: a reduce-scatter and then an
    all-gather, in place."""

    twice: bool = False  # a reduce-scatter by an all-reduce of the whole message, of which a rank keeps its part

    def rounds(self, kind: CollectiveKind) -> int:
        return 2 if self.twice or kind == "all_reduce" else 1

    def latency_s(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        step = self.step(library, kind, message_bytes, group, bytes_per_s)
        return step.base_s + self.rounds(kind) * (group.size - 1) * step.extra_s

    def step(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> RingStep:
        """Return the timing of one ring step for a message of S bytes, with the protocol that the library selects."""
        rounds, block = self.rounds(kind), message_bytes / group.size
        called: CollectiveKind = "all_reduce" if rounds == 2 else kind
        if library.in_node is not None and group.num_nodes == 1:
            return library.in_node.ring_step(library.ring, called, message_bytes, group, bytes_per_s)
        simple = simple_step(library.ring, block, group, bytes_per_s)
        if library.ring_ll is None:
            return simple
        low = low_latency_step(library.ring_ll, block, group, bytes_per_s)
        if library.tuning is not None:
            return either(library.tuning.takes_ll(RING, called, message_bytes, group), low, simple, RingStep)
        hops = rounds * (group.size - 1)
        is_faster = low.base_s + hops * low.extra_s <= simple.base_s + hops * simple.extra_s
        return either(is_faster, low, simple, RingStep)

    def step_law(
        self,
        library: Library,
        kind: CollectiveKind,
        message_bytes: float,
        group: GroupShape,
        bytes_per_s: float,
        num_orders: int,
    ) -> StepLaw:
        """Return the time law of the call's single messages, for which the slowest block of a ring, while nothing else
        runs, takes `latency_s` plus the time of the volume: see `GroupShape.ring_crossed_s`."""
        step = self.step(library, kind, message_bytes, group, bytes_per_s)
        block = message_bytes / group.size
        rest_s = block / bytes_per_s - step.share * block / step.bytes_per_s
        crossed_s = group.ring_crossed_s(step.inside_s, step.extra_s, self.rounds(kind))
        return StepLaw(
            base_s=step.base_s,
            hop_in_node_s=step.inside_s + rest_s,
            hop_between_nodes_s=crossed_s + rest_s,
            forwarded_share=step.share,
            bytes_per_s=step.bytes_per_s / num_orders if library.paced else math.inf,
            is_added=not library.paced,
        )

    def loads(
        self, fabric: Fabric, groups: NDArray[np.integer], library: Library, shares: Mapping[str, float] | None = None
    ) -> Pattern:
        return ring_loads(fabric, groups, shares or self.shares_on(library, fabric.machine), library.ring_order)

    def cap_bytes_per_s(self, library: Library, group: GroupShape) -> float:
        return library.ring_cap(group)

    def shares(self, library: Library) -> Mapping[str, float]:
        return {**library.shares, **library.ring_shares}

    def lacks(self, library: Library, kind: CollectiveKind) -> str:
        """Return "rings" for a library that uses rings for no collective: the ring parameters in its file were never
        measured."""
        level = library if library.two_level is None else library.two_level.library_inside
        return "" if any(RING in names for names in level.choices.values()) else "rings"

    def slices(self, library: Library, channel_bytes: float, num_nodes: int) -> int:
        return library.ring.slices

    def least_elements(self, library: Library) -> int:
        return library.ring.least_elements

    def is_reversed(self, library: Library, kind: CollectiveKind) -> bool:
        return library.reduces_backwards and kind != "all_gather"


def ring(kind: CollectiveKind, recipe: Recipe, *, twice: bool = False) -> Lowered:
    """Return the transfers of a collective; `twice`: carry out a reduce-scatter by the transfers of an all-reduce, so
    that every rank ends with more data than it needs."""
    transfers: list[Transfer] = []
    if kind in ("reduce_scatter", "all_reduce"):
        transfers += _around(recipe, first=-1, add=True)
    if kind in ("all_gather", "all_reduce") or twice:
        transfers += _around(recipe, first=0, add=False)
    return Lowered(kind=kind, size=recipe.size, parts=recipe.parts, transfers=tuple(transfers))


def _around(recipe: Recipe, first: int, add: bool) -> list[Transfer]:
    """Return the transfers around the ring: in step s the rank at position p sends the piece of the rank at position p
    + first - s to the rank at position p + 1. `add`: the receiver adds the data to its own."""
    size, parts, out = recipe.size, recipe.parts, []
    for step in range(size - 1):
        for part in range(parts):
            channel = part // recipe.slices
            order = recipe.orders[channel]
            for place in range(size):
                piece = order[(place + first - step) % size]
                chunk = piece * parts + part
                out.append(Transfer(order[place], order[(place + 1) % size], chunk, chunk, 1, add, channel))
    return out


def ring_loads(
    fabric: Fabric, groups: NDArray[np.integer], shares: Mapping[str, float], ring_order: RingOrder = "links"
) -> Pattern:
    """Return the load pattern of rings over groups ([num_groups, size] ranks), in the library's channel orders, with
    the ranks of each group sorted by (node, position).

    volume: bytes that a rank sends, (n-1)/n of the message for an all-gather or a reduce-scatter. Every channel carries
    1/num_channels of it. Either every group is within a node, or all groups span nodes; in this case the chain of each
    node is joined to the chain of the next node. shares: link class -> share of nominal bandwidth that the library
    achieves; for link classes not listed, the share in the machine file.
    """
    at = lay_out(fabric, groups)
    if at.size == 1:
        return assemble(fabric, at, {}, shares, divisor=1)
    machine, spans = fabric.machine, at.spans_nodes
    templates = {mask: ring_template(machine, mask, spans, ring_order) for mask in masks(at)}
    pools = pool_loads(fabric, at.group, at.node, at.node[at.following], np.ones(len(at.node)))
    channels = len(machine.node.chains if spans else machine.node.rings) if ring_order == "links" else 1
    return assemble(fabric, at, templates, shares, divisor=channels, pools=pools)


def ring_template(machine: Machine, mask: int, spans_nodes: bool, ring_order: RingOrder = "links") -> Template:
    """Return the loads on one node: each channel sends 1/num_channels of the volume over each edge of the ring, and
    data from other nodes enters at the first rank of the channel's order."""
    node, out = machine.node, Template()
    cut = orders(node, mask, spans_nodes, ring_order)
    share = 1.0 / len(cut)
    for order in cut:
        send(machine, out, pairwise(order) if spans_nodes else zip(order, [*order[1:], order[0]], strict=True), share)
        if spans_nodes:
            load(out.network, node.to_network(order[-1]), share)
            load(out.network, node.from_network(order[0]), share)
            out.edges[NETWORK] += 1
    return out


RINGS = Ring(
    name=RING,
    title="rings in the channels' orders",
    collectives=GATHERS_AND_SUMS,
    lowered=ring,
    laws=("ring", "ring_ll"),
    in_libraries=GATHERS_AND_SUMS,
    in_plans=True,
)
ALGORITHMS = (
    RINGS,
    Ring(  # gloo
        name=RING_TWICE,
        title="a ring all-reduce, of which a rank keeps its part",
        collectives=("reduce_scatter",),
        lowered=partial(ring, twice=True),
        in_libraries=("reduce_scatter",),
        twice=True,
    ),
)
