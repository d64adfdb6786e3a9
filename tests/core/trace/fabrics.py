"""Tables of links as an emulated fabric has them: those of a machine's nodes, with bytes made up from their numbers."""

from __future__ import annotations

from collections.abc import Callable

from simfrontier.core.machine import load_machine
from simfrontier.core.network import Fabric
from simfrontier.core.trace.table import LinkBytes, LinkTable

DIGEST = "0123456789abcdef" * 4
Bytes = Callable[[int, str], float]


def spread(number: int, name: str) -> float:
    """Between 2 and 62 MB, every link another number; the last NIC of every node carries nothing."""
    return 0.0 if "nic3" in name else 2e6 + 3e5 * (number * 37 % 200)


def table(machine: str = "frontier", num_nodes: int = 2, made: Bytes = spread, digest: str = DIGEST) -> LinkTable:
    """The wires of the machine's first nodes, by the names that the simulator gives them."""
    fabric = Fabric.build(load_machine(machine), num_nodes)
    links = []
    for number in range(fabric.hbm_base):
        node, wire = divmod(number, fabric.wires_per_node)
        link = fabric.machine.node.links[wire]
        src, dst = (_box(node, end) for end in (link.src, link.dst))
        name = fabric.describe(number)
        links.append(LinkBytes(name=name, link_class=link.link_class, src=src, dst=dst, num_bytes=made(number, name)))
    return LinkTable(digest=digest, title=f"made up for {machine}", links=tuple(links))


def _box(node: int, end: int | str) -> str:
    if end == "net":
        return "net"
    return f"node {node} {end}" if isinstance(end, str) else f"node {node} gcd {end}"
