"""Kernel names and simulated facts of the ops of a step, for its trace."""

from __future__ import annotations

from simfrontier.core.collectives import TracedCall, traced_call
from simfrontier.core.cost import Kernel
from simfrontier.core.engine import Walk
from simfrontier.core.program import Compute, Op
from simfrontier.core.trace import kineto as form


def facts_of(walk: Walk, op: Op) -> TracedCall:
    """Return what the trace holds about an op on ranks of a class; a kernel is a call of no group."""
    pricing = walk.step.pricing
    if not isinstance(op, Compute):
        return traced_call(op, pricing.schedule, walk.at)
    kernel = Kernel.of(op, pricing.schedule, pricing.machine)
    speed = float(pricing.fabric.speed[walk.members[0]])
    took_s = pricing.work_of(op, walk.cls).alone_s
    own = {"seconds": took_s, "bytes": kernel.num_bytes, "arithmetic_s": kernel.arithmetic_s / speed}
    return TracedCall(f"{op.kind} {op.name}", {form.OWN: own}, (), "")
