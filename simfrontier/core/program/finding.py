"""Findings of the schedule checker: one finding per fault, with a count if the same fault occurs several times (in
several layers, for example)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from simfrontier.core.program.ir import Call, Collective, Compute, Exchange, Op, Ref, Role, Schedule
from simfrontier.core.program.kinds import is_copy

if TYPE_CHECKING:
    from simfrontier.core.program.expansion import UnrolledProgram

Fault = tuple[str, str]  # (expected, found)
Rule = Literal["references", "placements", "facts", "sums", "versions", "order", "memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault in a schedule: the violated rule, the op and the ranks concerned, and the expected and actual facts.

    `times` is the number of ops (usually in different layers or micro-batches) with the same fault; `op` is the first
    of these ops.
    """

    rule: Rule
    op: str
    ranks: str
    expected: str
    found: str
    times: int = 1

    def __str__(self) -> str:
        more = f", and {self.times - 1} more like it" if self.times > 1 else ""
        return f"{self.rule}: {self.op} ({self.ranks}{more}): expected {self.expected}; found {self.found}"


class Findings:
    """Collection of findings. Findings with the same key are merged: the first one is kept, with a count."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Finding] = {}

    def add(self, rule: Rule, op: str, ranks: str, expected: str, text: str, key: Hashable = None) -> None:
        """Add a finding. Findings of a rule with equal `key` are the same fault (default: if their texts are equal)."""
        finding = Finding(rule=rule, op=op, ranks=ranks, expected=expected, found=text)
        same = (rule, finding if key is None else key)
        held = self._found.get(same)
        self._found[same] = finding if held is None else replace(held, times=held.times + 1)

    def __bool__(self) -> bool:
        return bool(self._found)

    def all(self) -> tuple[Finding, ...]:
        return tuple(self._found.values())


@dataclass(frozen=True, slots=True)
class CheckedRole:
    """A role with its unrolled program, and the collection to which findings about the role are added."""

    schedule: Schedule
    role: Role
    program: UnrolledProgram
    findings: Findings

    def report(self, rule: Rule, index: int, expected: str, got: str, key: Hashable) -> None:
        """Add a finding about the op at `index` of the role's program. Findings of the role with equal `key` are the
        same fault."""
        op, call = self.program.ops[index], self.program.calls[index]
        ranks = ranks_of(op, self.role, self.schedule.roles)
        self.findings.add(rule, title_of(op, call), ranks, expected, got, key=(self.role.name, key))

    def report_end(self, rule: Rule, title: str, expected: str, got: str, key: Hashable) -> None:
        """Add a finding about the state at the end of the program."""
        ranks = ranks_of_role(self.role, self.schedule.roles)
        self.findings.add(rule, title, ranks, expected, got, key=(self.role.name, key))

    def text(self, ref: Ref) -> str:
        """Return the text that identifies a tensor instance."""
        tensor = self.schedule.tensors[ref.name]
        return ref_text(ref, tensor.per_layer, tensor.per_micro)


def place_of(call: Call) -> str:
    """Return the text that locates a call: `backward of layer 3, micro-batch 0`."""
    return f"{call.label} of layer {call.layer}, micro-batch {call.micro}"


def title_of(op: Op, call: Call) -> str:
    """Return the text that identifies an op and its call: `backward of layer 3, micro-batch 0: all_gather copy_gather
    of qkv.weight.copy`."""
    return f"{place_of(call)}: {short_title(op)}"


def short_title(op: Op) -> str:
    """Return the text that identifies an op, without its call: `all_gather copy_gather of qkv.weight.copy (and 3
    more)`."""
    name = "" if op.name == op.kind else f" {op.name}"
    name += "" if op.piece is None else f" piece {op.piece.number}"
    if isinstance(op, Compute) and not is_copy(op):
        return f"{op.kind}{name}"
    more = f" (and {len(op.reads) - 1} more)" if len(op.reads) > 1 else ""
    return f"{op.kind}{name} of {op.reads[0].name}{more}" if op.reads else f"{op.kind}{name}"


def ranks_of(op: Op, role: Role, roles: tuple[Role, ...]) -> str:
    """Return the text that names the ranks an op of a role concerns: all ranks of the role; for a collective, with the
    axes of its groups; for an exchange, with the role at the other end."""
    who = ranks_of_role(role, roles)
    if isinstance(op, Collective):
        return f"{who}, groups over {'+'.join(op.axes)}"
    if isinstance(op, Exchange):
        others = [r.name for r in roles if r.at is not None and r.at[1] in op.ends and r is not role]
        return ", with ".join([who, *others])
    return who


def ranks_of_role(role: Role, roles: tuple[Role, ...]) -> str:
    """Return the text that names the ranks of a role; `all ranks` if it is the only role."""
    return "all ranks" if len(roles) == 1 else f"ranks of role {role.name}"


def ref_text(ref: Ref, per_layer: bool = True, per_micro: bool = True) -> str:
    """Return the text that identifies a tensor instance: `qkv.weight.copy of layer 3`."""
    of = [f"layer {ref.layer}"] if per_layer else []
    of += [f"micro-batch {ref.micro}"] if per_micro else []
    return f"{ref.name} of {', '.join(of)}" if of else ref.name
