"""How long the ops of a step take alone: times of traces, to which who reads them adds contention of its own."""

from __future__ import annotations

from simfrontier.errors import InputError
from simfrontier.schedule import Op
from simfrontier.simulation import SimulatedStep, lasting


def seconds_alone(step: SimulatedStep, cls: int) -> list[float]:
    """What each op of a rank class takes with nothing beside it; of a collective: with only the calls of its own kind
    that other groups make at once."""
    timeline = step.role_timeline(cls)
    alone: dict[int, float] = {}
    ops = timeline.segmented.expanded.ops
    for op in ops:
        if op.number not in alone:
            alone[op.number] = _alone_s(step, op, cls)
    if step.call_factors is None:
        return [alone[op.number] for op in ops]
    factors = step.call_factors[int(step.cluster.role_of[cls])][timeline.classes.index(cls)].tolist()
    return [_alone_s(step, op, cls, factor) for op, factor in zip(ops, factors, strict=True)]


def _alone_s(step: SimulatedStep, op: Op, cls: int, factor: float = 1.0) -> float:
    priced = step.cluster.of(op)
    work = priced.works[int(step.cluster.folding.activity_of(priced.pattern)[cls])]
    if work.stands_still:
        what = f"{op.kind} {op.name} has no time: what it needs is dead in the state that lasts longest in the step"
        raise InputError(f"{what}; allowed: one in which every op ends", key=("perturbation",))
    return lasting(work, factor).alone_s
