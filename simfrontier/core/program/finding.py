"""Findings of the schedule checker: one per fault, with a count if the same fault occurs in several layers."""

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
    """One fault: the broken rule, the op and the ranks concerned, and the expected and actual facts.

    `times` counts the ops (usually layers or micro-batches) that show the same fault; `op` is the first of them.
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
    """Collects findings; those with the same key are counted, and the first represents them all."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Finding] = {}

    def add(self, rule: Rule, op: str, ranks: str, expected: str, text: str, key: Hashable = None) -> None:
        """Add a finding; findings with equal `key` are the same fault (default: equal text)."""
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
    """A role with its program, and the findings about it."""

    schedule: Schedule
    role: Role
    program: UnrolledProgram
    findings: Findings

    def report(self, rule: Rule, index: int, expected: str, got: str, key: Hashable) -> None:
        """Add a finding about an op of the program; the same faults of a role have the same key."""
        op, call = self.program.ops[index], self.program.calls[index]
        ranks = ranks_of(op, self.role, self.schedule.roles)
        self.findings.add(rule, title_of(op, call), ranks, expected, got, key=(self.role.name, key))

    def report_end(self, rule: Rule, title: str, expected: str, got: str, key: Hashable) -> None:
        """Add a finding about the state at the end of the program."""
        ranks = ranks_of_role(self.role, self.schedule.roles)
        self.findings.add(rule, title, ranks, expected, got, key=(self.role.name, key))

    def text(self, ref: Ref) -> str:
        """Return an instance in words."""
        tensor = self.schedule.tensors[ref.name]
        return ref_text(ref, tensor.per_layer, tensor.per_micro)


def place_of(call: Call) -> str:
    """Return the place of a call in words: `backward of layer 3, micro-batch 0`."""
    return f"{call.label} of layer {call.layer}, micro-batch {call.micro}"


def title_of(op: Op, call: Call) -> str:
    """Return an op in words: `backward of layer 3, micro-batch 0: all_gather copy_gather of qkv.weight.copy`."""
    return f"{place_of(call)}: {short_title(op)}"


def short_title(op: Op) -> str:
    """Return an op in words, without its call: `all_gather copy_gather of qkv.weight.copy (and 3 more)`."""
    name = "" if op.name == op.kind else f" {op.name}"
    name += "" if op.piece is None else f" piece {op.piece.number}"
    if isinstance(op, Compute) and not is_copy(op):
        return f"{op.kind}{name}"
    more = f" (and {len(op.reads) - 1} more)" if len(op.reads) > 1 else ""
    return f"{op.kind}{name} of {op.reads[0].name}{more}" if op.reads else f"{op.kind}{name}"


def ranks_of(op: Op, role: Role, roles: tuple[Role, ...]) -> str:
    """Name the ranks that an op of a role concerns: all of the role, groups of a collective, or also the role at the
    other end."""
    who = ranks_of_role(role, roles)
    if isinstance(op, Collective):
        return f"{who}, groups over {'+'.join(op.axes)}"
    if isinstance(op, Exchange):
        others = [r.name for r in roles if r.at is not None and r.at[1] in op.ends and r is not role]
        return ", with ".join([who, *others])
    return who


def ranks_of_role(role: Role, roles: tuple[Role, ...]) -> str:
    """Name the ranks of a role: all ranks if it is the only one."""
    return "all ranks" if len(roles) == 1 else f"ranks of role {role.name}"


def ref_text(ref: Ref, per_layer: bool = True, per_micro: bool = True) -> str:
    """Return an instance in words: `qkv.weight.copy of layer 3`."""
    of = [f"layer {ref.layer}"] if per_layer else []
    of += [f"micro-batch {ref.micro}"] if per_micro else []
    return f"{ref.name} of {', '.join(of)}" if of else ref.name
