"""Rules of tensor instances (a tensor of one layer and micro-batch): each instance is written before it is read, and
read before it is overwritten or the step ends; a state is written once."""

from __future__ import annotations

from typing import Final

from simfrontier.core.program.finding import CheckedRole, Rule, short_title, title_of
from simfrontier.core.program.ir import Op, Ref, Schedule
from simfrontier.core.program.kinds import renews_weights, writes_mask

READ: Final = "read by an op later"
Moment = tuple[Ref, int]  # a state, and the micro-batch in which it changes (0: when the step ends)


def check_instances(schedule: Schedule, checked: CheckedRole) -> None:
    """Check the reads and writes of tensor instances in a role's program. Only a training step must read everything
    that it writes."""
    walk = _Walk(schedule, checked)
    walk.reads_of_written()
    if any(renews_weights(op) for op in schedule.ops):
        walk.unread()
    if any(tensor.role in ("state", "constant") for tensor in schedule.tensors.values()):
        walk.states()


class _Walk:
    """Checks of the reads and writes in one role's program."""

    def __init__(self, schedule: Schedule, checked: CheckedRole) -> None:
        self.checked, self.program, self.tensors = checked, checked.program, schedule.tensors

    def reads_of_written(self) -> None:
        """Check that every tensor that is not persistent is written before it is read."""
        program = self.program
        known: set[Ref] = set()
        lasting = {name for name, tensor in self.tensors.items() if tensor.persistent}
        for index, reads in enumerate(program.reads):
            for ref in reads:
                if ref not in known:
                    known.add(ref)
                    if ref.name not in lasting:
                        self._report(
                            "references", index, ref, "written by an op before", self._written_later(index, ref)
                        )
            known.update(program.writes[index], program.accumulates[index])

    def _written_later(self, index: int, ref: Ref) -> str:
        program = self.program
        changed = zip(program.writes[index:], program.accumulates[index:], strict=True)
        later = next((at for at, refs in enumerate(changed, start=index) if ref in refs[0] or ref in refs[1]), None)
        if later is None:
            return "no op writes it"
        return f"it is written later, by {title_of(program.ops[later], program.calls[later])}"

    def unread(self) -> None:
        """Check that each value, gradient, sum or encoded tensor is read before the step ends and before it is
        overwritten. A value is written only once, because the backward pass may need it. Tokens, the output of a
        recomputed layer, and the mask of a recomputed dropout are exempt."""
        program, tensors = self.program, self.tensors
        watched = {name for name, tensor in tensors.items() if not tensor.persistent and tensor.role != "token"}
        values = {name for name in watched if tensors[name].role == "activation"}
        remade = {tensor.recomputes for tensor in tensors.values() if tensor.recomputes}
        again = {name for name in watched if tensors[name].form_of or tensors[name].recomputes}
        waiting: dict[Ref, int] = {}
        written: set[Ref] = set()
        for index, op in enumerate(program.ops):
            for ref in program.reads[index]:
                waiting.pop(ref, None)
            masks = program.writes[index][1:] if writes_mask(op) else ()
            for ref in program.writes[index]:
                if ref.name in values:
                    if ref in written:
                        self._report("references", index, ref, "written once", "written twice")
                    written.add(ref)
                if ref.name not in watched or (ref.name in again and ref.layer == program.calls[index].layer + 1):
                    continue
                if ref in masks and ref.name in remade:
                    continue
                if ref in waiting:
                    self._report("references", waiting[ref], ref, READ, "written again before it is")
                waiting[ref] = index
        for ref, index in waiting.items():
            self._report("references", index, ref, READ, "read by none")

    def states(self) -> None:
        """Check that every state that a role uses is written once, by the last op that uses it: once per step if the
        state follows a weight (moving average), otherwise once per micro-batch. A constant is never written."""
        touched: dict[Moment, None] = {}
        written: dict[Moment, Op] = {}
        for index, op in enumerate(self.program.ops):
            for expected, refs in (
                ("as it was before", self.program.reads[index]),
                ("written once", self.program.writes[index]),
            ):
                is_write = expected == "written once"
                for ref in refs:
                    role = self.tensors[ref.name].role
                    if role == "constant" and is_write:
                        self._report("versions", index, ref, "never written", "written")
                    if role != "state":
                        continue
                    moment = self._moment(ref, index)
                    touched[moment] = None
                    if moment in written:
                        by = f"written anew before, by {short_title(written[moment])}"
                        self._report("versions", index, ref, expected, by)
                    if is_write:
                        written[moment] = op
        for ref, micro in [moment for moment in touched if moment not in written]:
            of = "of step" if self.tensors[ref.name].follows else f"of micro-batch {micro}"
            title = f"end {of}: {self.checked.text(ref)}"
            self.checked.report_end("versions", title, "written anew", "not written", (ref.name, "end"))

    def _moment(self, ref: Ref, index: int) -> Moment:
        return ref, self.program.calls[index].micro if self.tensors[ref.name].follows is None else 0

    def _report(self, rule: Rule, index: int, ref: Ref, expected: str, got: str) -> None:
        key = (self.program.ops[index].number, ref.name, expected)
        self.checked.report(rule, index, f"{self.checked.text(ref)} {expected}", got, key)
