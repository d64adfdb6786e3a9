"""The rule of what is made for nothing, or over something: all that a training step writes, and that ends with it, is
read in it; a value of the model is written once."""

from __future__ import annotations

from typing import Final

from simfrontier.schedule.expansion import UnrolledProgram
from simfrontier.schedule.finding import Findings, ranks_of, ref_text, title_of
from simfrontier.schedule.ir import Op, Ref, Role, Schedule
from simfrontier.schedule.kinds import renews_weights, writes_mask

READ: Final = "read by an op later"


def check_unread(schedule: Schedule, programs: list[tuple[Role, UnrolledProgram]], findings: Findings) -> None:
    """A value, gradient, sum or code that is written is read before the step ends, and before it is written again; a
    value, which the backward pass may need, is never written again.
    Tokens may be written for whoever asks; what a layer that is computed again passes on is left, and the mask of a
    dropout that is."""
    if not any(renews_weights(op) for op in schedule.distinct_ops()):
        return
    tensors = schedule.tensors
    watched = {name for name, tensor in tensors.items() if not tensor.persistent and tensor.role != "token"}
    values = {name for name in watched if tensors[name].role == "activation"}
    remade = {tensor.recomputes for tensor in tensors.values() if tensor.recomputes}
    again = {name for name in watched if tensors[name].form_of or tensors[name].recomputes}
    for role, program in programs:
        waiting: dict[Ref, int] = {}
        written: set[Ref] = set()
        for index in range(program.num_ops):
            for ref in program.reads[index]:
                waiting.pop(ref, None)
            masks = program.writes[index][1:] if writes_mask(program.ops[index]) else ()
            for ref in program.writes[index]:
                if ref.name in values:
                    if ref in written:
                        _report(schedule, role, program, index, ref, "written once", "written twice", findings)
                    written.add(ref)
                if ref.name not in watched or (ref.name in again and ref.layer == program.calls[index].layer + 1):
                    continue
                if ref in masks and ref.name in remade:
                    continue
                if ref in waiting:
                    _report(schedule, role, program, waiting[ref], ref, READ, "written again before it is", findings)
                waiting[ref] = index
        for ref, index in waiting.items():
            _report(schedule, role, program, index, ref, READ, "read by none", findings)


def _report(
    schedule: Schedule,
    role: Role,
    program: UnrolledProgram,
    index: int,
    ref: Ref,
    expected: str,
    got: str,
    findings: Findings,
) -> None:
    op: Op = program.ops[index]
    tensor = schedule.tensors[ref.name]
    text = ref_text(ref, tensor.per_layer, tensor.per_micro)
    ranks = ranks_of(op, role, schedule.roles)
    key = (role.name, op.number, ref.name, got)
    findings.add("references", title_of(op, program.calls[index]), ranks, f"{text} {expected}", got, key=key)
