"""How long building, folding and taking the quotient of six patterns takes: called by the bench, not a test."""

import resource
import time
from dataclasses import dataclass

import numpy as np

from simfrontier.collectives.algorithms.direct import direct_loads as direct
from simfrontier.collectives.algorithms.ring import ring_loads as ring
from simfrontier.machine import load_machine
from simfrontier.network import Fabric, Pattern, fold, local


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldTiming:
    """Seconds of CPU for each stage, the size of what was folded, and the process's peak memory so far."""

    num_devices: int
    num_links: int
    num_loads: int
    num_rank_classes: int
    num_link_classes: int
    build_s: float
    fold_s: float
    columns_s: float
    peak_bytes: int

    @property
    def total_s(self) -> float:
        """Build, fold and quotient together."""
        return self.build_s + self.fold_s + self.columns_s


def six_patterns(fabric: Fabric) -> dict[str, Pattern]:
    """What the plans use: rings over all, over nodes, packages and equal positions; all-to-alls; local work."""
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


def time_fold(num_nodes: int, machine_name: str = "frontier") -> FoldTiming:
    """Build, fold and read all columns once, with CPU time of this process."""
    machine = load_machine(machine_name)
    start = time.process_time()
    fabric = Fabric.build(machine, num_nodes)
    patterns = six_patterns(fabric)
    built = time.process_time()
    folding = fold(fabric, patterns)
    folded = time.process_time()
    for key in patterns:
        for cls in range(len(folding.count(key))):
            folding.column(key, cls)
    done = time.process_time()
    return FoldTiming(
        num_devices=fabric.num_ranks,
        num_links=fabric.num_links,
        num_loads=sum(len(pattern.act) for pattern in patterns.values()),
        num_rank_classes=folding.num_rank_classes,
        num_link_classes=folding.num_link_classes,
        build_s=built - start,
        fold_s=folded - built,
        columns_s=done - folded,
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )
