"""Schedules with something changed in them, and what the check says of them."""

from collections.abc import Callable
from dataclasses import replace
from typing import get_args

from simfrontier.core.program import Call, Compute, Op, Schedule, check
from simfrontier.core.program.finding import Rule
from tests.core.program.naming import named_op

Edit = Callable[[Call, Op], list[Op]]
RULES = {*get_args(Rule)}


def mutated(schedule: Schedule, edit: Edit) -> Schedule:
    """The schedule with every op replaced by what `edit` makes of it; untouched ops stay shared."""
    roles = []
    for role in schedule.roles:
        blocks: dict[tuple[int, str, int, int], tuple[Op, ...]] = {}
        calls = []
        for call in role.calls:
            ops = tuple(_as_named(new) for op in call.ops for new in edit(call, op))
            key = (call.block, call.label, call.layer, call.micro)
            calls.append(replace(call, ops=call.ops if ops == call.ops else blocks.setdefault(key, ops)))
        roles.append(replace(role, calls=tuple(calls)))
    return replace(schedule, roles=tuple(roles))


def _as_named(new: Op) -> Op:
    """An edited op with what its name says."""
    if not isinstance(new, Compute) or new.named == (named := named_op(new.kind, new.name)):
        return new
    return replace(new, named=named)


def where(
    kind: str, name: str | None = None, label: str | None = None, layer: int | None = None, touches: str | None = None
) -> Callable[[Call, Op], bool]:
    def matches(call: Call, op: Op) -> bool:
        named = {ref.name for ref in (*op.reads, *op.writes, *op.accumulates)}
        return (
            op.kind == kind
            and name in (None, op.name)
            and label in (None, call.label)
            and layer in (None, call.layer)
            and (touches is None or touches in named)
        )

    return matches


def dropped(matches: Callable[[Call, Op], bool]) -> Edit:
    return lambda call, op: [] if matches(call, op) else [op]


def changed(matches: Callable[[Call, Op], bool], **fields: object) -> Edit:
    return lambda call, op: [replace(op, **fields)] if matches(call, op) else [op]  # type: ignore[arg-type]


def with_tensor(schedule: Schedule, name: str, **fields: object) -> Schedule:
    tensor = replace(schedule.tensors[name], **fields)  # type: ignore[arg-type]
    return replace(schedule, tensors={**schedule.tensors, name: tensor})


def lines(schedule: Schedule) -> list[str]:
    return [str(finding) for finding in check(schedule).findings]


def says(schedule: Schedule, *parts: str) -> None:
    """One of the findings holds all these parts. Each is a single line, begins with a rule and leaves nothing out."""
    result = lines(schedule)
    assert {line.partition(":")[0] for line in result} <= RULES
    assert not any("None" in line for line in result)
    assert all("\n" not in line for line in result)
    assert any(all(part in line for part in parts) for line in result), "\n".join(result) or "no findings"
