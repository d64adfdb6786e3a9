"""The registry of kinds of ops: what their ops move, and that it is sound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfrontier.schedule import KINDS, Compute, ModelFacts, ModelKind, Schedule, traffic_bytes
from simfrontier.schedule.checks import meta
from simfrontier.schedule.kinds import calls, copies, embedding, loss, measured, norms, optimizer, pointwise, products
from simfrontier.schedule.traffic import Operands, as_written, every_operand, picked_rows, replaced_entries
from tests.schedule.builders import zero3
from tests.schedule.mutations import says

MODULES = (calls, copies, embedding, loss, measured, norms, optimizer, pointwise, products)


def op_of(schedule: Schedule, name: str) -> Compute:
    return next(op for op in schedule.distinct_ops() if op.name == name and isinstance(op, Compute))


def held(schedule: Schedule, op: Compute) -> tuple[int, int]:
    """Bytes of all that an op reads, and of all that it writes."""
    read, written = (
        sum(schedule.tensors[ref.name].local_bytes(schedule.mesh) for ref in refs) for refs in (op.reads, op.writes)
    )
    return read, written


def test_an_op_moves_all_its_operands_or_rows_of_them() -> None:
    schedule = zero3()
    op = op_of(schedule, "gelu")
    read, written = held(schedule, op)
    operands = Operands(op, schedule.tensors, schedule.mesh)
    assert traffic_bytes(op, schedule.tensors, schedule.mesh) == every_operand(operands) == read + written
    assert picked_rows(operands) == min(read, written) + written
    assert as_written(operands) == 2 * written


def test_what_is_searched_is_read_as_a_whole_and_of_a_state_only_what_is_replaced() -> None:
    """The first operand says which rows of a state are taken; of a state that is written, the others stay."""
    schedule = zero3()
    one, other = op_of(schedule, "gelu"), op_of(schedule, "ln1")
    op = replace(one, reads=(one.reads[0], other.reads[0]))
    state = replace(schedule.tensors[other.reads[0].name], role="state")
    tensors = {**schedule.tensors, state.name: state}
    sizes = [tensors[ref.name].local_bytes(schedule.mesh) for ref in op.reads]
    written = sum(tensors[ref.name].local_bytes(schedule.mesh) for ref in op.writes)
    operands = Operands(op, tensors, schedule.mesh)
    assert picked_rows(operands) == sizes[0] + min(sum(sizes), written) + written
    assert replaced_entries(operands) == 2 * sizes[0]


def test_every_kind_stands_once_and_names_kinds_that_there_are() -> None:
    listed = [kind for module in MODULES for kind in module.KINDS]
    assert len({kind.name for kind in listed}) == len(listed) <= len(KINDS)
    for kind in KINDS.values():
        if isinstance(kind, ModelKind) and kind.gradient:
            assert isinstance(KINDS[kind.gradient], ModelKind)


def test_facts_of_a_model_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    stated = ModelFacts(stated=lambda _: iter([("crops", "12: those that are joined")]))
    monkeypatch.setattr(meta, "added", lambda module, kind: (stated,))
    says(zero3(), "meta crops", "12: those that are joined")
