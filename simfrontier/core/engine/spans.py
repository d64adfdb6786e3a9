"""Conversion of the ops of a rank class to spans of a trace, and of a simulated step to a trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from simfrontier.core.collectives import message_bytes, sent_and_received
from simfrontier.core.engine.step import SimulatedStep
from simfrontier.core.engine.varied import step_note
from simfrontier.core.engine.walk import Walk, walks_of
from simfrontier.core.program import Compute, Exchange, Op, traffic_bytes
from simfrontier.core.trace import SIMULATED, Span, Trace, rank_text


def trace_of(
    step: SimulatedStep,
    digest: str,
    title: str,
    classes: tuple[int, ...] | None = None,
    notes: Mapping[str, str] | None = None,
) -> Trace:
    """Return a simulated step as a trace, with one list of spans for each of the rank classes in `classes` (default:
    all); `notes` are added to those of the simulation. The op numbers in spans are those of the rank's own program."""
    walks = walks_of(step, classes)
    members = tuple(walk.members for walk in walks)
    return Trace(
        digest=digest,
        title=title,
        ranks=tuple(rank_text(each, step.schedule.mesh.num_ranks) for each in members),
        members=members,
        spans=tuple(spans_of(walk) for walk in walks),
        notes={**trace_notes(step), **(notes or {})},
    )


def trace_notes(step: SimulatedStep) -> dict[str, str]:
    """Return the notes for a trace of the simulated step: fidelity, machine, library, mesh and simplifications."""
    note = step_note(step)
    return {
        "mode": SIMULATED,
        "fidelity": step.fidelity,
        "machine": step.pricing.machine.name,
        "library": step.pricing.library.name,
        "mesh": ", ".join(f"{axis} {size}" for axis, size in step.schedule.mesh.axes),
        **({"simplified": note} if note else {}),
    }


def spans_of(walk: Walk) -> tuple[Span, ...]:
    """Return every op of a walk as a span. An op that represents a program call becomes a span of kind `call`, with the
    number of the call's first op and the sum of the bytes that the call's ops send."""
    facts, first, out = _Facts(walk), 0, []
    times = (each.tolist() for each in (walk.ready_s, walk.start_s, walk.end_s))
    for op, call, block, ready_s, start_s, end_s in zip(walk.ops, walk.calls, walk.blocks, *times, strict=True):
        fact = facts.of(op) if block is None else facts.of_call(op, block)
        span = Span(
            op=first,
            lane=op.lane,
            kind=op.kind,
            name=op.name if block is None else call.label,
            axes=fact.axes,
            level=fact.level,
            call=call.label,
            layer=call.layer,
            micro=call.micro,
            num_bytes=fact.num_bytes,
            message_bytes=fact.message_bytes,
            ready_s=ready_s,
            start_s=start_s,
            end_s=end_s,
        )
        out.append(span)
        first += 1 if block is None else len(block)
    return tuple(out)


class _Fact(NamedTuple):
    """Mesh axes and topology level of an op's groups, the bytes that the op sends (or its memory traffic), and the
    bytes of its messages."""

    axes: str
    level: str
    num_bytes: float
    message_bytes: float


class _Facts:
    """Attributes of spans other than their times, determined once for each op."""

    def __init__(self, walk: Walk) -> None:
        self.step, self.at = walk.step, walk.at
        self.known: dict[int, _Fact] = {}

    def of(self, op: Op) -> _Fact:
        """Return the attributes of an op; for an exchange, the bytes are those sent by the ranks of this walk's
        pipeline stage."""
        if op.number not in self.known:
            self.known[op.number] = self._found(op)
        return self.known[op.number]

    def of_call(self, op: Op, block: tuple[Op, ...]) -> _Fact:
        """Return the attributes of an op that represents the ops `block` of a program call."""
        if op.number not in self.known:
            facts = [self.of(each) for each in block if not isinstance(each, Compute)]
            sent, messages = sum(each.num_bytes for each in facts), sum(each.message_bytes for each in facts)
            self.known[op.number] = _Fact("", "", sent, messages)
        return self.known[op.number]

    def _found(self, op: Op) -> _Fact:
        step, tensors, mesh = self.step, self.step.schedule.tensors, self.step.schedule.mesh
        if isinstance(op, Compute):
            return _Fact("", "", float(traffic_bytes(op, tensors, mesh)), 0.0)
        if isinstance(op, Exchange):
            sent = float(sent_and_received(op, tensors, mesh, self.at)[0])
            return _Fact(op.axis, step.level(op), sent, sent)
        messages = float(message_bytes(op, tensors, mesh))
        return _Fact("+".join(op.axes), step.level(op), step.pricing.volume_bytes(op), messages)
