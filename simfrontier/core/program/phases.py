"""Phases of a step: which pass of the model a call is of, told from what its ops do."""

from __future__ import annotations

from typing import Literal

from simfrontier.core.program.ir import Call, Compute, Exchange, Op, Schedule
from simfrontier.core.program.kinds import is_work, model_kind

Phase = Literal["forward", "backward", "exchange", "end"]
"""`exchange`: of values between stages; `end`: what follows the last micro-batch (reductions and the optimizer)."""


def phase_of(call: Call, schedule: Schedule) -> Phase:
    """Return the phase of a call. A backward begins with the loss, and includes what it computes again."""
    block = schedule.blocks[call.block]
    if any(_exchanges_values(op, schedule) for op in block):
        return "exchange"
    works = [op for op in block if isinstance(op, Compute) and is_work(op)]
    if not works:
        return "end"
    return "backward" if any(op.named.part is not None or model_kind(op.kind).ends for op in works) else "forward"


def _exchanges_values(op: Op, schedule: Schedule) -> bool:
    """Whether stages exchange values by an op, and not gradients of a weight that both have."""
    return isinstance(op, Exchange) and all(schedule.tensors[ref.name].weight is None for ref in op.reads)
