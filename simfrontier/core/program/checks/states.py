"""The rules of states: each is what it was until one op writes it anew, once in a step or in every micro-batch."""

from __future__ import annotations

from collections.abc import Sequence

from simfrontier.core.program.finding import CheckedRole, short_title
from simfrontier.core.program.ir import Op, Ref, Schedule

Moment = tuple[Ref, int]


def check_states(schedule: Schedule, roles: Sequence[CheckedRole]) -> None:
    """Every state that a role touches is written once, by the last op that touches it: in a step where it follows a
    weight, else in every micro-batch. A constant never is."""
    if any(tensor.role in ("state", "constant") for tensor in schedule.tensors.values()):
        for checked in roles:
            _Walk(checked).run()


class _Walk:
    """One role's way through its program."""

    def __init__(self, checked: CheckedRole) -> None:
        self.checked, self.program, self.tensors = checked, checked.program, checked.schedule.tensors
        self.kind = {name: tensor.role for name, tensor in self.tensors.items()}

    def run(self) -> None:
        """Walk to the end."""
        touched: dict[Moment, None] = {}
        written: dict[Moment, Op] = {}
        for index, op in enumerate(self.program.ops):
            for ref in self.program.reads[index]:
                if self.kind[ref.name] == "state":
                    moment = self._moment(ref, index)
                    touched[moment] = None
                    if moment in written:
                        self._report(index, f"{self.checked.text(ref)} as it was before", self._by(written[moment]))
            for ref in self.program.writes[index]:
                if self.kind[ref.name] == "constant":
                    self._report(index, f"{self.checked.text(ref)} never written", "written")
                elif self.kind[ref.name] == "state":
                    moment = self._moment(ref, index)
                    touched[moment] = None
                    if moment in written:
                        self._report(index, f"{self.checked.text(ref)} written once", self._by(written[moment]))
                    written[moment] = op
        for moment in touched:
            if moment not in written:
                self._report_end(*moment)

    def _moment(self, ref: Ref, index: int) -> Moment:
        """The state that an op means, and the micro-batch in which it changes: 0 for one that changes when the step
        ends."""
        return ref, self.program.calls[index].micro if self.tensors[ref.name].follows is None else 0

    def _by(self, op: Op) -> str:
        return f"written anew before, by {short_title(op)}"

    def _report(self, index: int, expected: str, got: str) -> None:
        self.checked.report("versions", index, expected, got, (self.program.ops[index].number, got))

    def _report_end(self, ref: Ref, micro: int) -> None:
        of = "of step" if self.tensors[ref.name].follows else f"of micro-batch {micro}"
        title = f"end {of}: {self.checked.text(ref)}"
        self.checked.report_end("versions", title, "written anew", "not written", (ref.name, "end"))
