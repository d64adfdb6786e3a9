"""What a rank holds, op by op: the lifetimes of the schedule, in whatever order lanes finish."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.program import Call, Compute, ExpandedProgram, Mesh, Ref, Role, Schedule, Tensor, expand
from simfrontier.core.program.placement import REPLICATE
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
def test_what_is_held_after_each_op_is_what_is_touched_again_before_it_is_written(
    plan: str, engine: str, grad_accum: int, checkpointing: Checkpointing
) -> None:
    """In program order. Forward scan for the expectation: an instance is needed after op i if it has been made by
    then, and the next op that touches it reads or adds to it."""
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


# ── by hand ──


def one_line(*ops: tuple[str, str, str], persistent: str = "") -> tuple[Schedule, ExpandedProgram]:
    """A program of (reads, writes, accumulates), one letter a tensor."""
    names = sorted({letter for op in ops for part in op for letter in part})
    tensors = {
        name: Tensor(
            name=name,
            shape=(1,),
            dtype="fp32",
            role="activation",
            placement=REPLICATE,
            persistent=name in persistent,
        )
        for name in names
    }
    made = Schedule(
        mesh=Mesh((("p", 1),)),
        tensors=tensors,
        roles=(
            Role(
                "all",
                (
                    Call(
                        "step",
                        0,
                        0,
                        tuple(
                            Compute(
                                kind="slice",
                                name=str(number),
                                reads=tuple(map(Ref, reads)),
                                writes=tuple(map(Ref, writes)),
                                accumulates=tuple(map(Ref, added)),
                            )
                            for number, (reads, writes, added) in enumerate(ops)
                        ),
                    ),
                ),
            ),
        ),
        pools={},
        meta={},
    )
    return made, expand(made, made.roles[0])


def held_after(made: Schedule, program: ExpandedProgram, start: dict[str, Any] | None = None) -> list[str]:
    buffers = Buffers(made, program)
    for name, value in (start or {}).items():
        buffers[Ref(name)] = value
    buffers.begin_step()
    out = []
    for index in range(program.num_ops):
        run(buffers, program, index)
        out.append("".join(sorted(ref.name for ref in buffers.by_ref)))
    return out


def test_lifetimes_by_hand() -> None:
    """a is written twice: between its last use by op 1 and its second writing by op 3 nobody holds it."""
    made, program = one_line(("", "a", ""), ("a", "b", ""), ("b", "c", ""), ("c", "a", ""), ("a", "w", ""))
    assert held_after(made, program) == ["a", "b", "c", "a", ""]


def test_reading_what_was_never_written_is_an_error_with_its_name() -> None:
    made, program = one_line(("", "a", ""), ("a", "b", ""))
    buffers = Buffers(made, program)
    with pytest.raises(
        SimfrontierError, match=r"^a of layer 3, micro-batch 1 is read, but nothing has been written there$"
    ):
        buffers[Ref("a", 3, 1)]
