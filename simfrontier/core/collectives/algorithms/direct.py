"""Direct messages: every rank of a group sends to every other rank; its j-th message goes to the rank j positions
further on in the order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.collectives.algorithms.base import Algorithm
from simfrontier.core.collectives.laws import GroupShape, StepLaw, added
from simfrontier.core.collectives.transfers import Lowered, Recipe, Transfer, in_time
from simfrontier.core.machine import Machine
from simfrontier.core.network import (
    NETWORK,
    Fabric,
    GroupLayout,
    Pattern,
    RingOrder,
    Template,
    assemble,
    group_loads,
    lay_out,
    load,
    masks,
    positions,
    send,
)
from simfrontier.core.program import DIRECT, CollectiveKind

if TYPE_CHECKING:
    from simfrontier.core.collectives.library import Library


PARTS: Final = 10**6  # of a message, in which its payload between endpoints is counted if it is not a whole one


@dataclass(frozen=True, slots=True, kw_only=True)
class Direct(Algorithm):
    """Algorithm of direct messages: one message from every rank of the group to every other rank."""

    def latency_s(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        """Return the start-up times, if a rank has as many messages in flight as the library has channels; inside a
        node the times of `Library.in_node`, if it has them."""
        if library.in_node is not None and group.num_nodes == 1:
            return library.in_node.direct_s(kind, message_bytes, group.size, bytes_per_s)
        near = group.size // group.num_nodes - 1
        far = group.size - 1 - near
        rounds_near, rounds_far = -(-near // library.num_channels), -(-far // library.num_channels)
        hops = library.direct
        return hops.base_s + rounds_near * hops.hop_in_node_s + rounds_far * hops.hop_between_nodes_s

    def step_law(
        self,
        library: Library,
        kind: CollectiveKind,
        message_bytes: float,
        group: GroupShape,
        bytes_per_s: float,
        num_orders: int,
    ) -> StepLaw:
        return added(library.direct)

    def cap_bytes_per_s(self, library: Library, group: GroupShape) -> float:
        return library.direct_cap(group)

    def loads(
        self, fabric: Fabric, groups: NDArray[np.integer], library: Library, shares: Mapping[str, float] | None = None
    ) -> Pattern:
        return direct_loads(fabric, groups, shares or self.shares_on(library, fabric.machine))

    def ring_order(self, library: Library) -> RingOrder:
        return "ranks"

    def channels(self, orders: list[tuple[list[int], ...]]) -> list[tuple[int, ...]]:
        """Return one order of the ranks, which takes one rank of each node in turn. A rank sends to the ranks that
        follow it in this order, so that neighbours do not all begin with the same NIC (assumed)."""
        return [tuple(member for seat in zip(*orders[0], strict=True) for member in seat)]

    def most_at_once(self, library: Library) -> int | None:
        return library.num_channels


def direct(kind: CollectiveKind, recipe: Recipe) -> Lowered:
    """Return the transfers of a collective, staggered so that ranks do not all send to the same rank at once.
    Contributions to a sum are added in the order of the positions of their source ranks.

    An all-reduce is a reduce-scatter and then an all-gather; the all-gather of one slice overlaps with the reduction of
    the next slices.
    """
    size, parts = recipe.size, recipe.parts
    timed: list[tuple[int, Transfer]] = []
    for part in range(parts):
        channel, slice_ = divmod(part, recipe.slices)
        order = recipe.orders[channel]
        if kind == "all_to_all":
            timed += [(slice_, _across(size, parts, part, m, m, channel)) for m in order]
        if kind in ("reduce_scatter", "all_reduce"):
            for source, target in _by_source(size):
                chunk = order[target] * parts + part
                timed.append((slice_, Transfer(order[source], order[target], chunk, chunk, 1, True, channel)))
        if kind in ("all_gather", "all_reduce"):
            for source, target in _staggered(size):
                chunk = order[source] * parts + part
                stage = slice_ + (kind == "all_reduce")
                timed.append((stage, Transfer(order[source], order[target], chunk, chunk, 1, False, channel)))
        if kind == "all_to_all":
            for source, target in _staggered(size):
                timed.append((slice_, _across(size, parts, part, order[source], order[target], channel)))
    return Lowered(kind=kind, size=size, parts=parts, transfers=in_time(timed))


def _across(size: int, parts: int, part: int, source: int, target: int, channel: int) -> Transfer:
    """Return the transfer of one part of the piece that rank `source` sends to rank `target`, to its position in the
    result of the all-to-all."""
    return Transfer(source, target, target * parts + part, (size + source) * parts + part, 1, False, channel)


def _staggered(size: int) -> list[tuple[int, int]]:
    return [(place, (place + ahead) % size) for ahead in range(1, size) for place in range(size)]


def _by_source(size: int) -> list[tuple[int, int]]:
    """Return all (source, target) pairs of positions: first the messages to later positions, then those to earlier
    ones. Each source's targets begin with the position after the source's own; each target's sources ascend."""
    pairs = [(source, target) for source in range(size) for target in range(size) if source != target]
    return sorted(pairs, key=lambda pair: (pair[0] > pair[1], sum(pair)))


def direct_loads(
    fabric: Fabric, groups: NDArray[np.integer], shares: Mapping[str, float], near: float = 1.0, far: float = 1.0
) -> Pattern:
    """Return the load pattern of direct messages: each rank sends volume/(n-1) to every other rank of its group, NIC to
    NIC between nodes; `near` times as much inside nodes, and `far` times between them.

    Messages are counted, never enumerated: one template for the pairs of ranks within a node, and sums per rank and per
    group of nodes that pools connect. volume: bytes that a rank sends, (n-1)/n of the bytes that it holds. Groups and
    shares as in `ring_loads`.
    """
    at = lay_out(fabric, groups)
    if at.size == 1:
        return assemble(fabric, at, {}, shares, divisor=1)
    pools = _all_pairs(fabric, at)
    if pools is not None:
        pools = (*pools[:2], pools[2] * far)
    templates = {mask: _template(fabric.machine, mask, at.size, near, far) for mask in masks(at)}
    parts = 1 if near == far == 1.0 else PARTS
    return assemble(fabric, at, templates, shares, divisor=(at.size - 1) * parts, pools=pools)


def _template(machine: Machine, mask: int, size: int, near: float, far: float) -> Template:
    """Return the loads on one node if every rank sends 1/(size-1) of its volume, times `near` or `far`, to every other
    rank; traffic that leaves the node is summed per rank."""
    node, out = machine.node, Template()
    members = positions(mask)
    outside = size - len(members)
    send(machine, out, ((a, b) for a in members for b in members if a != b), near / (size - 1))
    if outside:
        for member in members:
            load(out.network, node.to_network(member), far * outside / (size - 1))
            load(out.network, node.from_network(member), far * outside / (size - 1))
    out.edges[NETWORK] = outside * len(members)
    if (near, far) != (1.0, 1.0):
        out.edges = [round(count * PARTS * part) for count, part in zip(out.edges, (near, near, far), strict=True)]
    return out


def _all_pairs(fabric: Fabric, at: GroupLayout) -> tuple[Ints, Ints, Floats] | None:
    """Return the loads on pools if each rank sends 1/(size-1) of its volume to every other rank, from the number of
    ranks in each group of nodes; None in a job without pools."""
    num_groups = fabric.pools.num_groups
    if not num_groups:
        return None
    seat, which = np.unique(at.group * num_groups + fabric.group_of_node[at.node], return_inverse=True)
    act, group = np.divmod(seat, num_groups)
    members = np.bincount(which, at.members)
    # every (seat, seat) pair of the same activity: seat i is repeated as often as its activity has seats
    num_seats = np.bincount(act, minlength=at.num_groups)
    first_seat = np.cumsum(num_seats) - num_seats
    one = np.repeat(np.arange(len(seat)), num_seats[act])
    begins = np.cumsum(num_seats[act]) - num_seats[act]
    other = first_seat[act[one]] + np.arange(len(one)) - begins[one]
    amount = members[one] * members[other] / (at.size - 1)
    return group_loads(fabric, act[one], group[one], group[other], amount)


MESSAGES = Direct(
    name=DIRECT,
    title="a message from every member to every other one",
    collectives=("all_gather", "reduce_scatter", "all_reduce", "all_to_all"),
    lowered=direct,
    adds_in_place=False,
    laws=("direct",),
    in_libraries=("all_to_all",),
    in_plans=True,
)
ALGORITHMS = (MESSAGES,)
