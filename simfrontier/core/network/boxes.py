"""The two ends of a link, named for a reader: devices, NICs and switches as boxes."""

from __future__ import annotations

from simfrontier.core.machine import NET, End
from simfrontier.core.network.fabric import Fabric


def ends(fabric: Fabric, link: int) -> tuple[str, str]:
    """Where a wire or a pool comes from and leads to, such as ("node 0 gcd 1", "node 0 nic0") or ("net 0", "net 3")."""
    if link >= fabric.pool_base:
        return fabric.pools.ends(link - fabric.pool_base)
    assert link < fabric.hbm_base, f"{fabric.describe(link)} joins no boxes"
    node, wire = divmod(link, fabric.wires_per_node)
    both = fabric.machine.node.links[wire]
    return box(fabric, node, both.src), box(fabric, node, both.dst)


def box(fabric: Fabric, node: int, end: End) -> str:
    """Boxes are named by node, the switch is not: there is one, or one per group of nodes between which pools lie."""
    if end != NET:
        return f"node {node} {'gcd ' if isinstance(end, int) else ''}{end}"
    return fabric.pools.switch(int(fabric.group_of_node[node]))


def joining_links(fabric: Fabric) -> list[int]:
    """The links that join boxes: all wires of nodes, and the pools between switches."""
    return [*range(fabric.hbm_base), *(fabric.pool_base + pool for pool in fabric.pools.joining())]
