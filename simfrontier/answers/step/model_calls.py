"""Calls that belong to the model itself: softmaxes of attention scores in memory, the loss with its collectives, and
collectives that gather or sum over all samples for later steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from simfrontier.core.collectives import brought_bytes, message_bytes, payload_share
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
    """Identical collectives of the loss: their number per step, and the bytes that a rank contributes to each."""

    kind: CollectiveKind
    number: int
    rank_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmaxes:
    """Softmaxes in one rank's step (with several roles: of a rank that computes the loss): bytes of memory traffic and
    seconds.

    `scores`: softmaxes of attention scores, forward and recomputed. `loss`: kernels of the loss and its gradient,
    including the merging of partial results. `calls`: collectives of the loss, from when all ranks are ready. `kernel`:
    kernel of softmaxes over whole rows; `way`: method by which the loss is computed.
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
    """Return the softmaxes of the critical rank if it computes the loss, else of the first rank class that does; for a
    model without cross-entropy over classes, those of the critical rank. None if there is neither loss nor softmax.
    """
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
    """Return the tensors that hold the ranks' contributions to the loss."""
    made = {ref.name for op in schedule.ops if _is_of_loss(op) and op.kind != LOSS.name for ref in op.writes}
    values = {schedule.tensors[name].value for name in made}
    return frozenset(name for name, tensor in schedule.tensors.items() if tensor.value in values)


def _part(op: Op, of_loss: frozenset[str]) -> str:
    """Return the field of `Softmaxes` that an op belongs to; empty if it belongs to none."""
    if isinstance(op, Collective):
        return "calls" if op.src[0].name in of_loss else ""
    if isinstance(op, Compute) and op.kind == "softmax":
        return "" if op.named.part else "scores"
    return "loss" if op.kind == "merge" or _is_of_loss(op) else ""


def _is_of_loss(op: Op) -> bool:
    kind = kind_of(op)
    return isinstance(kind, ModelKind) and kind.is_of_loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather:
    """One gathering or summing collective on the critical rank.

    `rank_bytes`: the bytes that a rank contributes: its piece of an all-gather, its vector of an all-reduce;
    `sent_bytes`: the average bytes sent by one of n ranks, whatever the algorithm: n - 1 pieces, or 2 (n - 1)/n of a
    vector. `holds`: whether the rank's work waits for the call. `seconds`: counted from when the rank is ready.
    """

    value: str
    kind: CollectiveKind
    rank_bytes: int
    sent_bytes: float
    holds: bool
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathers:
    """All such collectives of a step, in program order; and for the gradient reductions: their number, the bytes that a
    rank contributes and sends, and the seconds in which at least one of them is in progress.
    """

    calls: tuple[Gather, ...]
    num_reductions: int
    reduced_bytes: int
    reductions_sent_bytes: float
    reductions_s: float

    @property
    def held_s(self) -> float:
        """Return the seconds for which these calls block the rank's work."""
        return sum(call.seconds for call in self.calls if call.holds)


def gathers(step: SimulatedStep) -> Gathers | None:
    """Return these calls for a step whose model keeps state from step to step that all ranks contribute to; None for
    others.
    """
    calls = tuple(_calls(step))
    if not calls:
        return None
    reductions = _collectives(step, "step_reduction")
    line, row = step.timeline, step.critical_row
    spans = [(float(line.start[row, at]), float(line.end[row, at])) for at, _ in reductions]
    return Gathers(
        calls=calls,
        num_reductions=len(reductions),
        reduced_bytes=sum(_brought(step, op) for _, op in reductions),
        reductions_sent_bytes=sum(_sent(step, op) for _, op in reductions),
        reductions_s=_covered_s(spans),
    )


def _collectives(step: SimulatedStep, name: str) -> list[tuple[int, Collective]]:
    """Return the collectives of this name on the critical rank, each with its place among the rank's ops."""
    named = {op.number: op for op in step.schedule.ops if isinstance(op, Collective) and op.name == name}
    numbers = step.view(step.critical).numbers
    places = np.flatnonzero(np.isin(numbers, list(named)))
    return [(at, named[number]) for at, number in zip(places.tolist(), numbers[places].tolist(), strict=True)]


def _calls(step: SimulatedStep) -> Iterator[Gather]:
    line, row = step.timeline, step.critical_row
    for at, op in _collectives(step, "statistic"):
        yield Gather(
            value=step.schedule.tensors[op.src[0].name].value,
            kind=op.kind,
            rank_bytes=_brought(step, op),
            sent_bytes=_sent(step, op),
            holds=op.lane == "compute",
            seconds=float(line.end[row, at] - line.ready[row, at]),
        )


def _brought(step: SimulatedStep, op: Collective) -> int:
    return brought_bytes(op, step.schedule.tensors, step.schedule.mesh)


def _sent(step: SimulatedStep, op: Collective) -> float:
    tensors, mesh = step.schedule.tensors, step.schedule.mesh
    whole = message_bytes(op, tensors, mesh)
    return float(payload_share(op, mesh) * whole)


def _covered_s(spans: list[tuple[float, float]]) -> float:
    """Return the total length in seconds of the union of the spans."""
    total, until = 0.0, 0.0
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
