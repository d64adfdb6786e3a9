"""Lower bounds on a step of fidelity `flow`: what no order of these ops on this machine can beat."""

from __future__ import annotations

import numpy as np

from simfrontier.analysis.bytes_moved import instances
from simfrontier.network import ResourceKind
from simfrontier.records import dataclass
from simfrontier.schedule import Compute, members_of
from simfrontier.simulation import SimulatedStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Seconds: the busiest lane if every op ran alone; the busiest link at full capacity; the larger of both.

    `step_s` holds at fidelity `flow`, `lane_s` at `analytic` too; at `chunk` neither does.
    """

    lane_s: float
    link_s: float

    @property
    def step_s(self) -> float:
        return max(self.lane_s, self.link_s)


def bounds(step: SimulatedStep) -> Bounds:
    """Each lane is a FIFO, so a step lasts as long as the ops of its fullest lane at the speed each has when it is the
    only activity of the machine; and each wire has to carry its bytes."""
    cluster = step.cluster
    lanes: dict[tuple[str, int], float] = {}
    known: dict[int, list[float]] = {}  # by number of the op, which several roles may have
    wire = np.zeros(cluster.folding.num_link_classes)
    for role, op, count in instances(step):
        priced = cluster.of(op)
        if op.number not in known:
            known[op.number] = [cluster.least_s(work) for work in priced.works]
        shortest = known[op.number]
        mine = np.flatnonzero(cluster.role_of == role)
        groups = cluster.folding.activity_of(priced.pattern)[mine]
        for cls, group in zip(mine.tolist(), groups.tolist(), strict=True):
            lanes[op.lane, cls] = lanes.get((op.lane, cls), 0.0) + count * shortest[group]
        if not isinstance(op, Compute) and role == min(members_of(op, step.schedule), default=role):
            used = set(groups.tolist()) if not cluster.role_assignment.is_shared(op) else range(len(priced.works))
            for work in (priced.works[group] for group in used):
                if work.amount > 0.0:
                    flow = cluster.flows[work.flow]
                    wire[flow.rows] += count * work.amount * flow.load
    is_wire = cluster.fabric.kind[cluster.folding.link_representative] == ResourceKind.WIRE
    link_s = float((wire[is_wire] / cluster.folding.capacity[is_wire]).max(initial=0.0))
    return Bounds(lane_s=max(lanes.values(), default=0.0), link_s=link_s)
