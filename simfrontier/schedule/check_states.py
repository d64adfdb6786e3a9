"""The rules of states: each is what it was until one op writes it anew, once in a step or in every micro-batch."""

from __future__ import annotations

from simfrontier.schedule.expansion import UnrolledProgram
from simfrontier.schedule.finding import Findings, ranks_of, ranks_of_role, ref_text, short_title, title_of
from simfrontier.schedule.ir import Op, Ref, Role, Schedule

Moment = tuple[Ref, int]


def check_states(schedule: Schedule, programs: list[tuple[Role, UnrolledProgram]], findings: Findings) -> None:
    """Every state that a role touches is written once, by the last op that touches it: in a step where it follows a
    weight, else in every micro-batch. A constant never is."""
    roles = {name: tensor.role for name, tensor in schedule.tensors.items()}
    if not {"state", "constant"} & set(roles.values()):
        return
    for role, program in programs:
        _Walk(schedule, role, program, findings).run()


class _Walk:
    """One role's way through its program."""

    def __init__(self, schedule: Schedule, role: Role, program: UnrolledProgram, found: Findings) -> None:
        self.schedule, self.role, self.program, self.findings = schedule, role, program, found
        self.kind = {name: tensor.role for name, tensor in schedule.tensors.items()}

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
                        self._report(index, f"{self._text(ref)} as it was before", self._by(written[moment]))
            for ref in self.program.writes[index]:
                if self.kind[ref.name] == "constant":
                    self._report(index, f"{self._text(ref)} never written", "written")
                elif self.kind[ref.name] == "state":
                    moment = self._moment(ref, index)
                    touched[moment] = None
                    if moment in written:
                        self._report(index, f"{self._text(ref)} written once", self._by(written[moment]))
                    written[moment] = op
        for moment in touched:
            if moment not in written:
                self._report_end(*moment)

    def _moment(self, ref: Ref, index: int) -> Moment:
        """The state that an op means, and the micro-batch in which it changes: 0 for one that changes when the step
        ends."""
        follows = self.schedule.tensors[ref.name].follows
        return ref, self.program.calls[index].micro if follows is None else 0

    def _text(self, ref: Ref) -> str:
        tensor = self.schedule.tensors[ref.name]
        return ref_text(ref, tensor.per_layer, tensor.per_micro)

    def _by(self, op: Op) -> str:
        return f"written anew before, by {short_title(op)}"

    def _report(self, index: int, expected: str, got: str) -> None:
        op, call = self.program.ops[index], self.program.calls[index]
        ranks = ranks_of(op, self.role, self.schedule.roles)
        self.findings.add("versions", title_of(op, call), ranks, expected, got, key=(self.role.name, op.number, got))

    def _report_end(self, ref: Ref, micro: int) -> None:
        of = "" if self.schedule.tensors[ref.name].follows else f" of micro-batch {micro}"
        title, ranks = f"end{of or ' of step'}: {self._text(ref)}", ranks_of_role(self.role, self.schedule.roles)
        key = (self.role.name, ref.name, "end")
        self.findings.add("versions", title, ranks, "written anew", "not written", key=key)
