"""What the ops of a simulated step say in a trace: names of kernels, and what a simulation knows of them."""

from __future__ import annotations

from simfrontier.collectives import TracedCall, traced_call
from simfrontier.cost import kernel_parts
from simfrontier.schedule import Compute, Op
from simfrontier.simulation import SimulatedStep
from simfrontier.trace import kineto as form


def facts_of(step: SimulatedStep, op: Op, cls: int, at: tuple[str, int] | None) -> TracedCall:
    """What an op says on ranks of a class, which run their program at that place; a kernel is a call of no group."""
    if not isinstance(op, Compute):
        return traced_call(op, step.schedule, at)
    cluster = step.cluster
    work = cluster.of(op).works[int(cluster.folding.activity_of(cluster.of(op).pattern)[cls])]
    num_bytes, arithmetic_s = kernel_parts(op, cluster.schedule, cluster.machine)
    speed = float(cluster.fabric.speed[cluster.folding.representative[cls]])
    own = {"seconds": work.alone_s, "bytes": num_bytes, "arithmetic_s": arithmetic_s / speed}
    return TracedCall(f"{op.kind} {op.name}", {form.OWN: own}, (), "")
