"""What a rank holds, op by op: the lifetimes of the schedule, in whatever order lanes finish."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.core.program import ExpandedProgram, Ref, Schedule, expand
from simfrontier.core.workload import Checkpointing
from simfrontier_real.ops.programs import Buffers
from tests.real.schedules import ENGINES, EXACT, QUANTISED, schedule, training
from tests.real.together import Training

PLANS = {**EXACT, **QUANTISED}


def run(buffers: Buffers, program: ExpandedProgram, index: int) -> None:
    """An op that writes and adds to what it says."""
    for ref in (*program.writes[index], *program.accumulates[index]):
        buffers[ref] = index
    buffers.used_by(index)


def transient(made: Schedule) -> set[str]:
    return {t.name for t in made.tensors.values() if not t.persistent and t.role != "token"}


@settings(max_examples=20, deadline=None)
@given(
    plan=st.sampled_from(sorted(PLANS)),
    engine=st.sampled_from(sorted(ENGINES)),
    grad_accum=st.integers(1, 2),
    checkpointing=st.sampled_from(["full", "none"]),
)
def test_what_is_held_after_each_op_is_what_is_touched_again(
    plan: str, engine: str, grad_accum: int, checkpointing: Checkpointing
) -> None:
    """In program order. By a scan from the end: an instance is needed after op i if it has been made by then, and a
    later op touches it; no op writes it anew without reading what is there."""
    made = schedule(PLANS[plan], (2, 1, 2), grad_accum, checkpointing, ENGINES[engine])
    program, names = expand(made, made.roles[0]), transient(made)
    needed: list[set[Ref]] = [set() for _ in program.ops]
    later: set[Ref] = set()
    for index in reversed(range(program.num_ops)):
        needed[index] = set(later)
        later -= {ref for ref in program.writes[index] if ref.name in names}
        later |= {ref for ref in (*program.reads[index], *program.accumulates[index]) if ref.name in names}
    buffers = Buffers(made, program)
    buffers.begin_step()
    made_by_now: set[Ref] = set()
    for index in range(program.num_ops):
        run(buffers, program, index)
        made_by_now |= {ref for ref in (*program.writes[index], *program.accumulates[index]) if ref.name in names}
        assert {ref for ref in buffers.by_ref if ref.name in names} == needed[index] & made_by_now, index


@pytest.mark.parametrize("plan", ["zero3", "zero-topo", "copy of each forward", "ddp"])
def test_only_what_is_persistent_is_left_after_a_step_of_training(plan: str) -> None:
    made = schedule(EXACT[plan], (2, 1, 2), grad_accum=2)
    together = Training(made, training(2))
    kept = {tensor.name for tensor in made.tensors.values() if tensor.persistent}
    counts = []
    for number in range(2):
        together.train_step(number)
        for rank in together.ranks:
            assert {ref.name for ref in rank.context.buffers.by_ref} <= kept
            assert rank.context.buffers.bundled == {}
        counts.append([len(rank.context.buffers.by_ref) for rank in together.ranks])
    assert counts[0] == counts[1]
    world = together.world
    assert world.waiting == world.results == world.mail == {}
