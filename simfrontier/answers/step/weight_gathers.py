"""Calls of a step that gather or sum over all samples for later steps, and the reductions of its gradients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simfrontier.core.collectives import brought_bytes, message_bytes, sent_share
from simfrontier.core.engine import SimulatedStep
from simfrontier.core.program import RING, Collective, CollectiveKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather:
    """One call on the critical rank.

    `rank_bytes` is what a rank brings: its piece of an all-gather, its vector of an all-reduce; `sent_bytes` is what a
    rank of n sends on average, whatever the algorithm: n - 1 pieces, 2 (n - 1)/n of a vector. `holds`: whether the
    rank's work waits for it. `seconds` from when the rank is ready.
    """

    value: str
    kind: CollectiveKind
    rank_bytes: int
    sent_bytes: float
    holds: bool
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathers:
    """All calls of a step, in program order; of the gradients' reductions their number, the bytes that a rank brings
    and sends, and the seconds in which any of them is under way."""

    calls: tuple[Gather, ...]
    num_reductions: int
    reduced_bytes: int
    reductions_sent_bytes: float
    reductions_s: float

    @property
    def held_s(self) -> float:
        """Return how long they hold the rank's work up."""
        return sum(call.seconds for call in self.calls if call.holds)


def gathers(step: SimulatedStep) -> Gathers | None:
    """Return the calls of a step whose model keeps something from step to step that all ranks fill; None for others."""
    calls = tuple(_calls(step))
    if not calls:
        return None
    reductions = [(op, at) for at, op in _collectives(step) if op.name == "step_reduction"]
    line, row = step.timeline, step.critical_row
    spans = [(float(line.start[row, at]), float(line.end[row, at])) for _, at in reductions]
    return Gathers(
        calls=calls,
        num_reductions=len(reductions),
        reduced_bytes=sum(_brought(step, op) for op, _ in reductions),
        reductions_sent_bytes=sum(_sent(step, op) for op, _ in reductions),
        reductions_s=_covered_s(spans),
    )


def _collectives(step: SimulatedStep) -> Iterator[tuple[int, Collective]]:
    for at, op in enumerate(step.ops):
        if isinstance(op, Collective):
            yield at, op


def _calls(step: SimulatedStep) -> Iterator[Gather]:
    line, row = step.timeline, step.critical_row
    for at, op in _collectives(step):
        if op.name == "statistic":
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
    return float(sent_share(op, RING, mesh) * whole)


def _covered_s(spans: list[tuple[float, float]]) -> float:
    """Seconds that lie in any of the spans."""
    total, until = 0.0, 0.0
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
