"""Softmaxes of a step: those of attention in memory, and the loss with its collectives, on one rank."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from simfrontier.core.collectives import brought_bytes
from simfrontier.core.engine import SimulatedStep, Walk
from simfrontier.core.program import (
    LOSS,
    Collective,
    CollectiveKind,
    Compute,
    ModelKind,
    Op,
    Schedule,
    kind_of,
    traffic_bytes,
)
from simfrontier.core.workload import LossMethod

_WAYS: Final[dict[str, LossMethod]] = {
    "loss_own": "three-all-reduces",
    "loss_sums": "fused-two",
    "loss_online": "one-gather",
    "loss_pairs": "mn-merge",
}  # by an op that no other way has


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCall:
    """Equal collectives of the loss: how many in a step, and bytes that a rank brings to each."""

    kind: CollectiveKind
    number: int
    rank_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmaxes:
    """One rank's step, or, of several roles, that of a rank that has the loss; bytes of memory moved and seconds.

    `scores`: the softmaxes of attention's scores, forward and recomputed. `loss`: the kernels of the loss and its
    gradient, merging included. `calls`: the loss's collectives, from when all ranks are there. `kernel`: of softmaxes
    over whole rows; `way`: how the loss is formed.
    """

    kernel: str
    method: LossMethod
    scores_bytes: int
    scores_s: float
    loss_bytes: int
    loss_s: float
    calls: tuple[LossCall, ...]
    calls_s: float

    @property
    def seconds(self) -> float:
        return self.scores_s + self.loss_s + self.calls_s


def softmaxes(step: SimulatedStep) -> Softmaxes | None:
    """Return the softmaxes of the critical rank if it has the loss, else of the first that has it; of a model without a
    cross-entropy over classes, of the critical rank. None where there is neither loss nor softmax."""
    for cls in (step.critical, *range(step.pricing.folding.num_rank_classes)):
        walk = Walk(step=step, cls=cls)
        if any(op.kind == LOSS.name for op in walk.ops):
            return _of(walk)
    walk, of_loss = Walk(step=step, cls=step.critical), _of_loss(step.schedule)
    return _of(walk) if any(_part(op, of_loss) for op in walk.ops) else None


def _of(walk: Walk) -> Softmaxes:
    step = walk.step
    tensors, mesh, of_loss = step.schedule.tensors, step.schedule.mesh, _of_loss(step.schedule)
    num_bytes, seconds = Counter[str](), Counter[str]()
    calls = Counter[tuple[CollectiveKind, int]]()
    spent = (walk.end_s - walk.start_s).tolist()
    for op, each_s in zip(walk.ops, spent, strict=True):
        part = _part(op, of_loss)
        if not part:
            continue
        seconds[part] += each_s
        if isinstance(op, Compute):
            num_bytes[part] += traffic_bytes(op, tensors, mesh)
        elif isinstance(op, Collective):
            calls[op.kind, brought_bytes(op, tensors, mesh)] += 1
    kinds = {op.kind for op in walk.ops}
    return Softmaxes(
        kernel=str(step.schedule.meta.get("softmax", "fused")),
        method=next((way for kind, way in _WAYS.items() if kind in kinds), "whole"),
        scores_bytes=num_bytes["scores"],
        scores_s=seconds["scores"],
        loss_bytes=num_bytes["loss"],
        loss_s=seconds["loss"],
        calls=tuple(LossCall(kind=kind, number=count, rank_bytes=size) for (kind, size), count in calls.items()),
        calls_s=seconds["calls"],
    )


def _of_loss(schedule: Schedule) -> frozenset[str]:
    """The tensors that hold what ranks say of their part of the loss."""
    made = {ref.name for op in schedule.ops if _is_of_loss(op) and op.kind != LOSS.name for ref in op.writes}
    values = {schedule.tensors[name].value for name in made}
    return frozenset(name for name, tensor in schedule.tensors.items() if tensor.value in values)


def _part(op: Op, of_loss: frozenset[str]) -> str:
    """Return the part of the softmaxes that an op is of; empty where it is of none."""
    if isinstance(op, Collective):
        return "calls" if op.src[0].name in of_loss else ""
    if isinstance(op, Compute) and op.kind == "softmax":
        return "" if op.named.part else "scores"
    return "loss" if op.kind == "merge" or _is_of_loss(op) else ""


def _is_of_loss(op: Op) -> bool:
    kind = kind_of(op)
    return isinstance(kind, ModelKind) and kind.is_of_loss
