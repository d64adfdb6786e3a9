"""The two ends of a link, named for a reader: devices, NICs and switches as boxes."""

from __future__ import annotations

from simfrontier.machine.hardware import End
from simfrontier.network.fabric import Fabric

NET = "net"


def ends(fabric: Fabric, link: int) -> tuple[str, str]:
    """Where a wire or a pool comes from and leads to, such as ("node 0 gcd 1", "node 0 nic0") or ("net 0", "net 3")."""
    if link >= fabric.pool_base:
        source, target = divmod(link - fabric.pool_base, fabric.num_pool_groups)
        return f"{NET} {source}", f"{NET} {target}"
    assert link < fabric.hbm_base, f"{fabric.describe(link)} joins no boxes"
    node, wire = divmod(link, fabric.wires_per_node)
    both = fabric.machine.node.links[wire]
    return box(fabric, node, both.src), box(fabric, node, both.dst)


def box(fabric: Fabric, node: int, end: End) -> str:
    """Boxes are named by node, the switch is not: there is one, or one per dragonfly group."""
    if end != NET:
        return f"node {node} {'gcd ' if isinstance(end, int) else ''}{end}"
    if not fabric.num_pool_groups:
        return NET
    assert fabric.machine.dragonfly is not None
    return f"{NET} {node // fabric.machine.dragonfly.nodes_per_group}"


def joining_links(fabric: Fabric) -> list[int]:
    """The links that join boxes: all wires of nodes, and the pools between different dragonfly groups."""
    groups = range(fabric.num_pool_groups)
    pools = [fabric.pool_base + a * fabric.num_pool_groups + b for a in groups for b in groups if a != b]
    return [*range(fabric.hbm_base), *pools]
