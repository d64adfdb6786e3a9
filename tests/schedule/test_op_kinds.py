"""Kinds of ops that extras add: each thing that one says of itself, on ops of the core that are given its traits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfrontier.schedule import Compute, Schedule, check_meta, cost
from simfrontier.schedule.cost import traffic_bytes
from simfrontier.schedule.op_kind import ModelFacts
from tests.schedule.builders import zero3
from tests.schedule.mutations import says


def op_of(schedule: Schedule, name: str) -> Compute:
    return next(op for op in schedule.distinct_ops() if op.name == name and isinstance(op, Compute))


def held(schedule: Schedule, op: Compute) -> tuple[int, int]:
    """Bytes of all that an op reads, and of all that it writes."""
    read, written = (
        sum(schedule.tensors[ref.name].local_bytes(schedule.mesh) for ref in refs) for refs in (op.reads, op.writes)
    )
    return read, written


def moved(schedule: Schedule, op: Compute) -> int:
    return traffic_bytes(op, schedule.tensors, schedule.mesh)


def test_an_op_moves_all_its_operands_or_rows_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a kind with rows as many as it writes."""
    schedule = zero3()
    op = replace(op_of(schedule, "gelu"), kind="taken")
    read, written = held(schedule, op)
    assert moved(schedule, op) == read + written
    monkeypatch.setattr(cost, "TRAFFIC", {"taken": "rows"})
    assert moved(schedule, op) == min(read, written) + written


def test_what_is_searched_is_read_as_a_whole_and_of_a_state_only_what_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first operand says which rows of a state are taken; of a state that is written, the others stay."""
    schedule = zero3()
    one, other = op_of(schedule, "gelu"), op_of(schedule, "ln1")
    op = replace(one, kind="taken", reads=(one.reads[0], other.reads[0]))
    state = replace(schedule.tensors[other.reads[0].name], role="state")
    tensors = {**schedule.tensors, state.name: state}
    sizes = [tensors[ref.name].local_bytes(schedule.mesh) for ref in op.reads]
    written = sum(tensors[ref.name].local_bytes(schedule.mesh) for ref in op.writes)
    monkeypatch.setattr(cost, "TRAFFIC", {"taken": "rows"})
    assert traffic_bytes(op, tensors, schedule.mesh) == sizes[0] + min(sum(sizes), written) + written
    monkeypatch.setattr(cost, "TRAFFIC", {"taken": "entries"})
    assert traffic_bytes(op, tensors, schedule.mesh) == 2 * sizes[0]


def test_facts_of_a_model_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    stated = ModelFacts(stated=lambda _: iter([("crops", "12: those that are joined")]))
    monkeypatch.setattr(check_meta, "added", lambda module, kind: (stated,))
    says(zero3(), "meta crops", "12: those that are joined")
