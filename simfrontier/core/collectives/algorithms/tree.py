"""Tree algorithm: an all-reduce on two binary trees over the nodes, each for half of the data, with chains inside the
nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simfrontier.core.collectives.algorithms.base import Algorithm
from simfrontier.core.collectives.laws import (
    GroupShape,
    HopTimes,
    StepLaw,
    TreeTimes,
    added,
    either,
    tree_passage_s,
    tree_waits_s,
)
from simfrontier.core.collectives.transfers import Lowered, Recipe, Transfer, in_time
from simfrontier.core.machine import Machine, maximum, minimum, where, whole
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
from simfrontier.core.program import TREE, CollectiveKind

if TYPE_CHECKING:
    from simfrontier.core.collectives.library import Library


Ints = NDArray[np.signedinteger[Any]]


def double_tree(order: Ints, num_nodes: Ints) -> tuple[Ints, Ints]:
    """Return the parent of each position in `order` (-1 for the root), in each of two binary trees over the positions
    0..num_nodes-1; inner nodes of one tree are leaves of the other.

    First tree: the parent is the position with its lowest set bit cleared and the next higher bit set, or with the bit
    only cleared if the former is beyond the last position. Second tree: the first one mirrored (even number of nodes)
    or shifted by one (odd).
    """

    def parents(place: Ints) -> Ints:
        bit = place & -place
        up = (place ^ bit) | (bit << 1)
        up = np.where(up >= num_nodes, place ^ bit, up)
        return np.where(place == 0, -1, up)

    mirrored = num_nodes % 2 == 0
    seen_as = np.where(mirrored, num_nodes - 1 - order, (order - 1) % num_nodes)
    up = parents(seen_as)
    back = np.where(mirrored, num_nodes - 1 - up, (up + 1) % num_nodes)
    return parents(order), np.where(up < 0, -1, back)


MOST_SLICES, MIB = 128, 2**20  # more parts than that change little, and cost time to simulate


def _times(library: Library) -> TreeTimes:
    """Return the tree parameters of the library."""
    assert library.tree is not None, "`Library.algorithms` names no tree in a library without one"
    return library.tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree(Algorithm):
    """Tree algorithm: reduction up to the root, then broadcast down; the volume is the whole message."""

    def sent_part(self, kind: CollectiveKind, num_ranks: int) -> Fraction:
        return Fraction(1)

    def num_transfers(self, kind: CollectiveKind, recipe: Recipe) -> int:
        return 4 * recipe.size * recipe.parts * max(1, (recipe.size - 1).bit_length())

    def memory_per_byte(self, kind: CollectiveKind) -> float:
        """Return 5 bytes of memory traffic per byte of the vector: 3 to reduce it on the way up, and 2 to copy it on
        the way down."""
        return 5.0

    def latency_s(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        hops, rate_share = self._hops(library, message_bytes, group, bytes_per_s)
        volume_s = message_bytes / bytes_per_s
        in_node = 2 * (group.size // group.num_nodes - 1)
        latency_s = hops.base_s + in_node * hops.hop_in_node_s + volume_s * (1.0 / rate_share - 1.0)
        if group.num_nodes > 1:
            parts = self.slices(library, message_bytes / library.num_channels, group.num_nodes)
            latency_s += in_node * _times(library).fill_share * volume_s / parts
        return latency_s + tree_passage_s(group.tree_depth, hops.hop_between_nodes_s, volume_s) - volume_s

    def least_latency_s(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        """Return the lower bound, which is the latency at an intermediate rate: only the hops that no transfer hides
        count."""
        hops, _ = self._hops(library, message_bytes, group, math.inf)
        in_node_s = 2 * (group.size // group.num_nodes - 1) * hops.hop_in_node_s
        return hops.base_s + in_node_s + tree_waits_s(group.tree_depth, hops.hop_between_nodes_s)

    def step_law(
        self,
        library: Library,
        kind: CollectiveKind,
        message_bytes: float,
        group: GroupShape,
        bytes_per_s: float,
        num_orders: int,
    ) -> StepLaw:
        hops, rate_share = self._hops(library, message_bytes, group, bytes_per_s)
        slower_s = message_bytes / bytes_per_s * (1.0 / rate_share - 1.0)  # before its messages, as `latency_s`
        return added(replace(hops, base_s=hops.base_s + slower_s))

    def _hops(
        self, library: Library, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> tuple[HopTimes, float]:
        """Return the hop times of the protocol that a tree uses, and the share of the tree's rate that this protocol
        achieves.

        With the Simple protocol a hop between nodes takes its start-up time plus the transfer time of one chunk per
        channel (or of the whole message if it is smaller) at the tree's rate. Hops inside a node, over faster links,
        take only the start-up time.
        """
        times = _times(library)
        chunk_s = minimum(message_bytes, library.num_channels * times.chunk_bytes) / bytes_per_s
        simple = replace(times, hop_between_nodes_s=times.hop_between_nodes_s + chunk_s)
        low, ring, tuning = library.tree_ll, library.ring_ll, library.tuning
        if low is None or ring is None or tuning is None:
            return simple, 1.0
        is_low = tuning.takes_ll(TREE, "all_reduce", message_bytes, group)
        return either(is_low, low, simple, HopTimes), where(is_low, ring.rate_share, 1.0)

    def loads(
        self, fabric: Fabric, groups: NDArray[np.integer], library: Library, shares: Mapping[str, float] | None = None
    ) -> Pattern:
        return tree_loads(fabric, groups, shares or self.shares_on(library, fabric.machine))

    def cap_bytes_per_s(self, library: Library, group: GroupShape) -> float:
        """Return `bandwidth_ratio` times the rate cap of rings, which is known at most for groups inside a node."""
        return library.ring_cap(group) * _times(library).bandwidth_ratio

    def shares(self, library: Library) -> Mapping[str, float]:
        """Return the shares of rings, on which `bandwidth_ratio` is a factor."""
        return {**library.shares, **library.ring_shares}

    def shares_ratio(self, library: Library) -> float:
        return _times(library).bandwidth_ratio

    def lacks(self, library: Library, kind: CollectiveKind) -> str:
        return "tree" if library.tree is None else ""

    def slices(self, library: Library, channel_bytes: float, num_nodes: int) -> int:
        """Return the number of slices of a channel. A pipeline with an overhead per slice is fastest with a number of
        slices that grows as the square root of the bytes: here `slices` for 1 MiB, rounded up to a multiple of
        `in_flight`, up to about 128. Over several nodes each slice has at least `least_slice_bytes`, so that the slices
        in flight fill the links during the start-up times of hops."""
        times = _times(library)
        parts = minimum(MOST_SLICES, times.slices * math.sqrt(channel_bytes / MIB))
        if num_nodes > 1:
            parts = minimum(parts, channel_bytes / times.least_slice_bytes)
        at_once = library.in_flight or 1
        return whole(maximum(1.0, parts / at_once)) * at_once

    def ring_order(self, library: Library) -> RingOrder:
        return "links"

    def lanes(self, num_nodes: int) -> int:
        return 2 if num_nodes > 1 else 1


def tree(kind: CollectiveKind, recipe: Recipe) -> Lowered:
    """Return the transfers of an all-reduce: partial sums move from each chain's tail to its head and from the heads up
    the tree, and the total sum moves back down.

    Every channel carries an even share of the message, half of it on each tree (all of it on the chain if the group is
    on one node), slice by slice: slice k is k stages behind the first slice, and moves down while later slices move up.
    """
    shapes = _parents(recipe)
    parts = len(recipe.orders) * len(shapes) * recipe.slices
    timed: list[tuple[int, Transfer]] = []
    for part in range(parts):
        lane, slice_ = divmod(part, recipe.slices)
        order, parents = recipe.orders[lane // len(shapes)], shapes[lane % len(shapes)]
        height, depth = _height(parents), _depth(parents)
        chunk = part * recipe.size  # a part is as many chunks as there are members, and they stay together
        for place in sorted(range(recipe.size), key=lambda place: -height[place]):  # the long way down goes first
            if (parent := parents[place]) >= 0:
                low, high = order[place], order[parent]
                up = Transfer(low, high, chunk, chunk, recipe.size, True, lane)
                down = Transfer(high, low, chunk, chunk, recipe.size, False, lane)
                timed += [(height[place] + slice_, up), (max(height) + depth[place] - 1 + slice_, down)]
    return Lowered(kind=kind, size=recipe.size, parts=parts, transfers=in_time(timed))


def _parents(recipe: Recipe) -> list[list[int]]:
    """Return for each tree (one or two) the position of the parent of each position of an order (-1 for the root)."""
    each, nodes = recipe.per_node, recipe.num_nodes
    above_nodes = [np.array([-1])]
    if nodes > 1:
        above_nodes = list(double_tree(np.arange(nodes), np.full(nodes, nodes)))
    return [
        [place - 1 if place % each else max(-1, int(above[place // each]) * each) for place in range(recipe.size)]
        for above in above_nodes
    ]


def _depth(parents: list[int]) -> list[int]:
    """Return for each position the number of edges from it to the root."""
    out = []
    for place in range(len(parents)):
        edges, at = 0, place
        while parents[at] >= 0:
            edges, at = edges + 1, parents[at]
        out.append(edges)
    return out


def _height(parents: list[int]) -> list[int]:
    """Return for each position the number of edges on the longest path down to a leaf."""
    depth = _depth(parents)
    out = [0] * len(parents)
    for place in sorted(range(len(parents)), key=lambda place: -depth[place]):
        if parents[place] >= 0:
            out[parents[place]] = max(out[parents[place]], out[place] + 1)
    return out


def tree_loads(fabric: Fabric, groups: NDArray[np.integer], shares: Mapping[str, float]) -> Pattern:
    """Return the load pattern of an all-reduce on two complementary binary trees over the nodes, each for half of the
    vector, with chains inside the nodes.

    volume: the bytes S of the vector, of which each of the C channels (chain orders) carries S/C. Within a node the
    partial sum moves from a chain's tail to its head, and the result moves back: S/C in each direction on every edge.
    The heads of chains communicate with other nodes: for a tree in which the node has p parents (0 or 1) and c
    children, a head sends (p + c) S/2C (p upwards to reduce, c downwards to broadcast) and receives the same amount. A
    group within one node has only the chains (its rings, cut open). Source of the trees: NCCL, src/graph/trees.cc.
    """
    at = lay_out(fabric, groups)
    if at.size == 1:
        return assemble(fabric, at, {}, shares, divisor=1)
    machine, spans = fabric.machine, at.spans_nodes
    templates = {mask: _template(machine, mask, spans) for mask in masks(at)}
    channels = len(machine.node.chains if spans else machine.node.rings)
    if not spans:
        return assemble(fabric, at, templates, shares, divisor=2 * channels)
    opens = np.arange(len(at.group)) - at.order
    num_nodes = np.bincount(at.group)[at.group]
    neighbours = np.zeros(len(at.group))
    source, target = [], []
    for parent in double_tree(at.order, num_nodes):
        child = np.flatnonzero(parent >= 0)
        above = opens[child] + parent[child]
        neighbours[child] += 1.0
        neighbours += np.bincount(above, minlength=len(neighbours))
        source += [child, above]
        target += [above, child]
    start, end = np.concatenate(source), np.concatenate(target)
    pools = pool_loads(fabric, at.group[start], at.node[start], at.node[end], np.full(len(start), 0.5))
    edges = np.zeros((at.num_groups, 3), np.int64)
    edges[:, NETWORK] = np.bincount(at.group[start]) * channels
    return assemble(
        fabric, at, templates, shares, divisor=2 * channels, pools=pools, network_scale=neighbours / 2.0, edges=edges
    )


def _template(machine: Machine, mask: int, spans_nodes: bool) -> Template:
    """Return the loads on one node: chains up and down inside the node; `network` is one message of the whole vector in
    each direction at the head of each chain.

    Edges of a chain are counted once per tree and direction; the caller counts the edges between nodes.
    """
    node, out = machine.node, Template()
    cut = orders(node, mask, spans_nodes)
    share = 1.0 / len(cut)
    for order in cut:
        send(machine, out, pairwise(order), share)
        send(machine, out, pairwise(order[::-1]), share)
        if spans_nodes:
            load(out.network, node.to_network(order[0]), share)
            load(out.network, node.from_network(order[0]), share)
    out.edges = [2 * count for count in out.edges]  # each chain edge serves both trees
    return out


TREES = Tree(
    name=TREE,
    title="two binary trees over the nodes, chains inside",
    collectives=("all_reduce",),
    lowered=tree,
    laws=("tree", "tree_ll"),
    in_libraries=("all_reduce",),
    in_plans=True,
)
ALGORITHMS = (TREES,)
