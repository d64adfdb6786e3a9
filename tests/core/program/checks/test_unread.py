"""Findings of the checker for values that nothing reads, or that are overwritten before they are read."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from simfrontier.core.program import Call, Op, Schedule, check
from tests.core.program.mutations import mutated, says
from tests.mutated.cases import CASES


@cache
def sound(case: str) -> Schedule:
    schedule = CASES[case].make()
    assert check(schedule).is_clean
    return schedule


def test_a_call_out_of_place_leaves_a_gradient_unread() -> None:
    """The embedding's backward before that of the layers takes the gradient that has just arrived; that of layer 0 is
    then for nobody."""
    schedule = sound("compressed int8")
    role = schedule.roles[0]
    calls = list(role.calls)
    last = max(at for at, call in enumerate(calls) if call.label == "embedding.backward")
    arrived = calls[last - 3]
    assert arrived.label == "exchange"
    moved = replace(calls[last], layer=arrived.layer)
    calls[last - 2 : last + 1] = [moved, *calls[last - 2 : last]]
    wrong = replace(schedule, roles=(replace(role, calls=tuple(calls)), *schedule.roles[1:]))
    says(wrong, "ln1.backward", "d.x of layer 0, micro-batch 1 read by an op later", "found read by none")


def test_a_value_that_is_computed_twice_before_it_is_read() -> None:
    schedule = sound("ddp")

    def twice(_: Call, op: Op) -> list[Op]:
        return [op, replace(op, name="softmax")] if op.name == "softmax" else [op]

    says(mutated(schedule, twice), "softmax", "probabilities", "found written again before it is")
