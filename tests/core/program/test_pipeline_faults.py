"""The type checker on pipelines with a tied table: faults are named by their rule and roles, and none goes unseen."""

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.core.program import Call, Exchange, Op, Schedule, check
from tests.core.plan.grids import megatron, other, schedule_of
from tests.core.program.mutations import Edit, changed, dropped, lines, mutated, says, where


@cache
def pipeline(stages: int = 2, micros: int = 3, order: str = "1f1b", overlap: bool = False, chunks: int = 1) -> Schedule:
    """Stages of one layer in each chunk, on two ranks that share the samples."""
    options = megatron(1, stages, order=order, overlap_exchange=overlap, chunks=chunks)
    return schedule_of(options, 2 * stages, shape=other(num_layers=stages * chunks, tied=True), micros=micros)


def in_role(schedule: Schedule, name: str, edit: Edit) -> Schedule:
    """The schedule with only one role edited."""
    changed_roles = {role.name: role for role in mutated(schedule, edit).roles}
    return replace(schedule, roles=tuple(changed_roles[r.name] if r.name == name else r for r in schedule.roles))


def names(schedule: Schedule) -> list[str]:
    return [role.name for role in schedule.roles]


@pytest.mark.parametrize("stages", [2, 4])
def test_an_exchange_missing_in_one_role_is_named(stages: int) -> None:
    made = pipeline(stages)
    first, second, *_ = names(made)
    is_first = where("exchange", "forward")
    less = in_role(made, first, lambda call, op: [] if is_first(call, op) and call.micro == 0 else [op])
    says(less, "order: ", f"(ranks of role {second}", f"of role {first}")


def test_a_gradient_that_is_never_sent_is_named() -> None:
    is_last = where("exchange", "backward")
    wrong = mutated(pipeline(overlap=True), lambda call, op: [] if is_last(call, op) and call.micro == 2 else [op])
    says(wrong, "references: backward", "d.x of layer 1, micro-batch 2", "no op writes it")


def test_a_tied_gradient_that_is_not_swapped_is_named() -> None:
    made = pipeline()
    first, last = names(made)
    alone = mutated(made, dropped(lambda _, op: op.name == "tied"))
    every = ", ".join(f"micro-batch {number} once of role {first}" for number in range(3))
    says(alone, "sums: ", f"from each of the micro-batches 0..2 of the roles {first}, {last}, once", every)


def test_gradients_of_weights_that_a_divided_backward_leaves_out_are_named() -> None:
    made = pipeline(order="zb-v", chunks=2)
    less = mutated(made, lambda call, op: [] if (call.label, call.micro) == ("weight_gradients", 1) else [op])
    says(less, "sums: ", "qkv.weight", "from each of the micro-batches 0..2")


def test_a_norm_that_is_not_summed_over_the_roles_is_named() -> None:
    alone = mutated(pipeline(), dropped(where("all_reduce", "scalar")))
    assert any("norm" in line for line in lines(alone))


def test_blocking_exchanges_in_crossed_order_are_a_deadlock_that_names_both() -> None:
    """Stage 0 sends the last micro-batch before it takes back the first gradient; stage 1 gives that gradient first."""
    base = mutated(pipeline(order="gpipe", overlap=True), changed(where("exchange"), blocking=True, lane="compute"))
    assert check(base).is_clean
    role = base.roles[0]
    calls = list(role.calls)
    ends = [number for number, call in enumerate(calls) if any(isinstance(op, Exchange) for op in call.ops)]
    sends = [number for number in ends if any(op.name == "forward" for op in calls[number].ops)]
    takes = [number for number in ends if any(op.name == "backward" for op in calls[number].ops)]
    calls[sends[-1]], calls[takes[0]] = calls[takes[0]], calls[sends[-1]]
    crossed = replace(base, roles=(replace(role, calls=tuple(calls)), *base.roles[1:]))
    results = [line for line in lines(crossed) if line.startswith("order") and "does not join it" in line]
    assert any("exchange backward" in line for line in results) and any("exchange forward" in line for line in results)


def with_calls(schedule: Schedule, number: int, calls: list[Call]) -> Schedule:
    roles = list(schedule.roles)
    roles[number] = replace(roles[number], calls=tuple(calls))
    return replace(schedule, roles=tuple(roles))


@settings(max_examples=40, deadline=None)
@given(data=st.data(), stages=st.sampled_from([2, 3]), micros=st.integers(1, 3), overlap=st.booleans())
def test_no_op_of_any_role_can_be_left_out_unseen(data: st.DataObject, stages: int, micros: int, overlap: bool) -> None:
    schedule = pipeline(stages, micros, overlap=overlap)
    number = data.draw(st.integers(0, stages - 1))
    calls = list(schedule.roles[number].calls)
    at = data.draw(st.integers(0, len(calls) - 1))
    call = calls[at]
    drop = data.draw(st.integers(0, len(call.ops) - 1))
    calls[at] = replace(call, ops=call.ops[:drop] + call.ops[drop + 1 :])
    if call.ops[drop].kind != "hook":
        assert not check(with_calls(schedule, number, calls)).is_clean, (number, call.label, call.ops[drop].name)


@settings(max_examples=20, deadline=None)
@given(data=st.data(), stages=st.sampled_from([2, 3]), micros=st.integers(2, 3))
def test_no_two_exchanges_of_one_role_can_change_places_unseen(data: st.DataObject, stages: int, micros: int) -> None:
    """All exchanges between two stages meet in their order."""
    schedule = pipeline(stages, micros)
    number = data.draw(st.integers(0, stages - 1))
    calls = list(schedule.roles[number].calls)
    ends = data.draw(st.sampled_from([(i, i + 1) for i in range(stages - 1) if number in (i, i + 1)]))

    def meets(op: Op) -> bool:
        return isinstance(op, Exchange) and op.name != "tied" and op.ends == ends

    mine = [i for i, call in enumerate(calls) if any(map(meets, call.ops))]
    a, b = data.draw(st.lists(st.sampled_from(mine), min_size=2, max_size=2, unique=True))
    calls[a], calls[b] = calls[b], calls[a]
    assert not check(with_calls(schedule, number, calls)).is_clean
