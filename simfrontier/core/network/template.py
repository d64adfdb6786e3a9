"""What a group loads on one node that it visits: small dictionaries over local wires, written out for all nodes later.

Loops here run over the positions, orders and routes of a single node and over the few distinct sets of positions that
the groups have on a node, never over nodes or ranks.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Literal

from simfrontier.core.machine import Machine, Node

RingOrder = Literal["links", "ranks"]
PACKAGE, NODE, NETWORK = 0, 1, 2  # the boundaries at which endpoint payload is counted


@dataclass(slots=True, kw_only=True)
class Template:
    """Loads that one visit brings to the wires of its node, and its messages by boundary.

    wires    local wire -> bytes per byte of volume inside the node
    network  local wire -> the same for the ways to and from the network
    edges    messages by boundary (same package, same node, between nodes)
    """

    wires: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    network: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    edges: list[int] = field(default_factory=lambda: [0, 0, 0])


def positions(mask: int) -> list[int]:
    """The positions whose bit is set, in ascending order."""
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def orders(node: Node, mask: int, spans_nodes: bool, ring_order: RingOrder = "links") -> list[list[int]]:
    """The library's orders of this node's members, one per channel; a library that follows the ranks has one.

    The whole node: its rings, or its chains where the group spans nodes. A part of a node: where the group spans
    nodes, the chains with the others left out; else the best cycle through the members, both ways round, as a library
    that searches the link graph would find it.
    """
    members = positions(mask)
    if ring_order == "ranks":
        return [members]
    whole: Sequence[Sequence[int]] = node.chains if spans_nodes else node.rings
    assert whole, "a node has at least one ring"
    if not spans_nodes and len(members) < len(whole[0]):
        cycle = best_cycle(node, members)
        return [cycle if channel % 2 == 0 else cycle[::-1] for channel in range(len(whole))]
    cut = [[position for position in order if position in members] for order in whole]
    assert all(len(order) == len(members) for order in cut), "an order must name every device of the node"
    return cut


def best_cycle(node: Node, members: Sequence[int]) -> list[int]:
    """The cycle that, run both ways at once, moves most over its narrowest link; then the fewest links, then the
    lowest order."""
    if node.has_bus or node.has_switch:  # every order is as good as any other
        return list(members)
    first, *rest = members

    def badness(order: tuple[int, ...]) -> tuple[float, int, tuple[int, ...]]:
        cycle = (first, *order)
        load: defaultdict[int, float] = defaultdict(float)
        for a, b in zip(cycle, (*cycle[1:], first), strict=True):
            for wire in (*node.route(a, b), *node.route(b, a)):
                load[wire] += 1.0 / node.links[wire].bytes_per_s
        return max(load.values(), default=0.0), len(load), cycle

    return list(min(map(badness, permutations(rest)))[2])


def send(machine: Machine, out: Template, edges: Iterable[tuple[int, int]], share: float) -> None:
    for a, b in edges:
        load(out.wires, machine.node.route(a, b), share)
        same_package = a // machine.devices_per_package == b // machine.devices_per_package
        out.edges[PACKAGE if same_package else NODE] += 1


def load(wires: defaultdict[int, float], route: Sequence[int], amount: float) -> None:
    for wire in route:
        wires[wire] += amount
