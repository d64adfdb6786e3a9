"""The rule of what is made for nothing, or over something: all that a training step writes, and that ends with it, is
read in it; a value of the model is written once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simfrontier.core.program.finding import CheckedRole
from simfrontier.core.program.ir import Ref, Schedule
from simfrontier.core.program.kinds import renews_weights, writes_mask

READ: Final = "read by an op later"


def check_unread(schedule: Schedule, roles: Sequence[CheckedRole]) -> None:
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
    for checked in roles:
        program = checked.program
        waiting: dict[Ref, int] = {}
        written: set[Ref] = set()
        for index in range(program.num_ops):
            for ref in program.reads[index]:
                waiting.pop(ref, None)
            masks = program.writes[index][1:] if writes_mask(program.ops[index]) else ()
            for ref in program.writes[index]:
                if ref.name in values:
                    if ref in written:
                        _report(checked, index, ref, "written once", "written twice")
                    written.add(ref)
                if ref.name not in watched or (ref.name in again and ref.layer == program.calls[index].layer + 1):
                    continue
                if ref in masks and ref.name in remade:
                    continue
                if ref in waiting:
                    _report(checked, waiting[ref], ref, READ, "written again before it is")
                waiting[ref] = index
        for ref, index in waiting.items():
            _report(checked, index, ref, READ, "read by none")


def _report(checked: CheckedRole, index: int, ref: Ref, expected: str, got: str) -> None:
    key = (checked.program.ops[index].number, ref.name, got)
    checked.report("references", index, f"{checked.text(ref)} {expected}", got, key)
