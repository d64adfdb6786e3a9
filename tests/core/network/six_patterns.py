"""Six patterns that plans use, on the ranks of a fabric."""

import numpy as np

from simfrontier.core.collectives.algorithms.direct import direct_loads as direct
from simfrontier.core.collectives.algorithms.ring import ring_loads as ring
from simfrontier.core.network import Fabric, Pattern, local


def six_patterns(fabric: Fabric) -> dict[str, Pattern]:
    """Rings over all ranks, nodes, packages and equal positions of nodes; all-to-alls of these; local work."""
    ranks = np.arange(fabric.num_ranks)
    per_node = fabric.machine.devices_per_node
    return {
        "world": ring(fabric, ranks[None, :], {}),
        "node": ring(fabric, ranks.reshape(-1, per_node), {}),
        "package": ring(fabric, ranks.reshape(-1, fabric.machine.devices_per_package), {}),
        "cross": ring(fabric, ranks.reshape(-1, per_node).T, {}),
        "cross direct": direct(fabric, ranks.reshape(-1, per_node).T, {}),
        "local": local(fabric),
    }
