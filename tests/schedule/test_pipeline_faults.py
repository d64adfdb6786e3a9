"""The type checker of schedules on pipelines: every fault is named by the right rule, with the roles concerned."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.schedule import Call, Exchange, Op, Ref, Schedule, check
from simfrontier.schedule.placement import partial
from tests.schedule.mutations import Edit, changed, dropped, lines, mutated, says, where, with_tensor
from tests.schedule.pipelines import Pipeline


def pipeline(stages: int = 2, micros: int = 3, **fields: bool | str) -> Schedule:
    return Pipeline(stages, micros, **fields).schedule()  # type: ignore[arg-type]


def in_role(schedule: Schedule, name: str, edit: Edit) -> Schedule:
    """The schedule with only one role edited."""
    changed_roles = {role.name: role for role in mutated(schedule, edit).roles}
    return replace(schedule, roles=tuple(changed_roles[r.name] if r.name == name else r for r in schedule.roles))


def exchange(name: str, micro: int | None = None) -> Callable[[Call, Op], bool]:
    matches = where("exchange", name)
    return lambda call, op: matches(call, op) and micro in (None, call.micro)


def rules(schedule: Schedule) -> set[str]:
    return {finding.rule for finding in check(schedule).findings}


# ── order ──


@pytest.mark.parametrize("stages", [2, 4])
def test_an_exchange_missing_in_one_role_is_named(stages: int) -> None:
    less = in_role(pipeline(stages), "s0", dropped(exchange("forward", 0)))
    says(
        less,
        "order: ",
        "(ranks of role s1, with s0)",
        "like ",
        "of role s0",
        "x of layer 1, micro-batch 0 (1024 bytes)",
    )
    says(less, "order: ", "(ranks of role s1", "blocked: role s0")


def test_blocking_exchanges_in_crossed_order_are_a_deadlock_that_names_both() -> None:
    """GPipe on communicators of their own: stage 0 sends micro-batch 2 before it takes back the first gradient; stage 1
    wants to give that gradient first."""
    base = mutated(pipeline(order="gpipe", overlap=True), changed(where("exchange"), blocking=True, lane="compute"))
    assert check(base).is_clean
    forward, backward = exchange("forward", 2), exchange("backward", 0)
    crossing = [op for call, op in base.roles[0].instances() if forward(call, op) or backward(call, op)]

    def cross(call: Call, op: Op) -> list[Op]:
        moved = next(
            (new for new in crossing if (new.name != op.name) and (forward(call, op) or backward(call, op))), op
        )
        return [moved]

    # swap the two ops where they stand; references are relative, so the micro-batch is put right in each
    def swapped(call: Call, op: Op) -> list[Op]:
        new = cross(call, op)[0]
        if new is op:
            return [op]
        assert isinstance(new, Exchange)
        way = (0 if new.name == "backward" else 2) - call.micro
        sides = {side: tuple(ref._replace(micro=way) for ref in getattr(new, side)) for side in SIDES}
        return [replace(new, **sides)]

    crossed = in_role(base, "s0", swapped)
    results = [line for line in lines(crossed) if line.startswith("order") and "does not join it" in line]
    assert any(
        "exchange backward" in line and "(ranks of role s0)" in line and "role s1 (in" in line for line in results
    )
    assert any(
        "exchange forward" in line and "(ranks of role s1)" in line and "role s0 (in" in line for line in results
    )


SIDES = ("src", "dst", "back_src", "back_dst")


# ── references ──


def test_another_layer_received_is_named() -> None:
    """Stage 1 gets the layer after the one that it reads."""
    wrong = mutated(pipeline(), changed(exchange("forward"), dst=(Ref("x", 1),)))
    says(wrong, "references: exchange of layer 1", "x of the layer of x (+0 from the call)", "found +1")
    later = mutated(pipeline(4), changed(exchange("forward"), src=(Ref("x", 1),), dst=(Ref("x", 1),)))
    says(later, "references: ", "x of layer 2, micro-batch 0 written by an op before", "no op writes it")


def test_a_gradient_that_is_never_sent_is_named() -> None:
    wrong = mutated(pipeline(), dropped(exchange("backward", 2)))
    says(wrong, "references: backward of layer 0, micro-batch 2", "d.x of layer 1, micro-batch 2", "no op writes it")
    assert "order" not in rules(wrong)


# ── placements ──


def test_the_norm_is_partial_over_the_roles_and_all_that_divides_it() -> None:
    assert check(with_tensor(pipeline(), "norm", placement=partial(("stage", "data", "tensor")))).findings  # its sum
    within = with_tensor(pipeline(), "norm", placement=partial(("tensor",)))
    says(
        within,
        "placements: norm of layer 0",
        "norm as [stage:partial(sum) tensor:partial(sum)]",
        "[tensor:partial(sum)]",
    )
    uncut = with_tensor(pipeline(), "norm", placement=partial(("stage",)))
    says(uncut, "placements: norm of layer 0", "norm as [stage:partial(sum) tensor:partial(sum)]")
    wide = mutated(pipeline(), changed(where("all_reduce", "norm"), axes=("stage", "data", "tensor")))
    assert check(with_tensor(wide, "norm", placement=partial(("stage", "data", "tensor")))).is_clean
    largest = with_tensor(pipeline(), "norm", placement=partial(("stage", "tensor"), op="max"))
    says(largest, "placements: norm of layer 0", "norm as [stage:partial(sum) tensor:partial(sum)]")


# ── sums ──


@pytest.mark.parametrize("stages", [2, 4])
def test_a_tied_gradient_that_is_not_swapped_is_named(stages: int) -> None:
    last = f"s{stages - 1}"
    alone = mutated(pipeline(stages), dropped(lambda _, op: op.name == "tie"))
    wanted = f"from each of the micro-batches 0..2 of the roles s0, {last}, once"
    every = ", ".join(f"micro-batch {i} once" for i in range(3))
    says(alone, "sums: norm", "(ranks of role s0)", wanted, f"of role s0 {every}; of role {last} nothing")
    says(
        alone, "sums: step.embedding", f"(ranks of role {last})", wanted, f"of role s0 nothing; of role {last} {every}"
    )


def test_a_tied_gradient_added_twice_is_named() -> None:
    twice = mutated(pipeline(), lambda _, op: [op, op] if op.kind == "accumulate" else [op])
    says(twice, "sums: norm", "of role s0 micro-batch 0 once", "of role s1 micro-batch 0 twice")


def test_a_gradient_swapped_before_it_is_complete_is_named() -> None:
    """Stage 0 sends its gradient before the last micro-batch has added to it."""
    schedule = pipeline()
    tie = next(call for call in schedule.roles[0].calls if call.label == "tie")

    def early(call: Call, op: Op) -> list[Op]:
        if call.label == "tie":
            return []
        return [*tie.ops, op] if call.label == "embedding.backward" and call.micro == 2 else [op]

    says(
        in_role(schedule, "s0", early),
        "sums: step.embedding",
        "(ranks of role s1)",
        "of role s0 micro-batch 0 once, mic",
    )


def test_a_norm_that_counts_a_tied_weight_twice_is_named() -> None:
    schedule = pipeline()
    (norm,) = next(
        c for c in schedule.roles[0].calls if c.label == "norm" and "embedding" in c.ops[0].reads[0].name
    ).ops
    first = where("norm2")
    twice = in_role(schedule, "s1", lambda call, op: [op, norm] if first(call, op) else [op])
    says(twice, "sums: step", "a norm that counts embedding.weight once", "found twice")


def test_a_norm_that_is_not_summed_over_the_roles_is_named() -> None:
    alone = mutated(pipeline(), changed(where("all_reduce", "norm"), axes=("tensor",), comm="tensor/compute"))
    says(
        alone,
        "sums: step of layer 0",
        "(ranks of role s0)",
        "a norm that counts down of layer 1 once",
        "found not at all",
    )
    says(alone, "placements: clip")


# ── nothing goes unseen ──


@settings(max_examples=60, deadline=None)
@given(data=st.data(), stages=st.integers(2, 4), micros=st.integers(1, 4), overlap=st.booleans())
def test_no_op_of_any_role_can_be_left_out_unseen(data: st.DataObject, stages: int, micros: int, overlap: bool) -> None:
    schedule = pipeline(stages, micros, overlap=overlap)
    number = data.draw(st.integers(0, stages - 1))
    role = schedule.roles[number]
    at = data.draw(st.integers(0, len(role.calls) - 1))
    call = role.calls[at]
    drop = data.draw(st.integers(0, len(call.ops) - 1))
    less = replace(call, ops=call.ops[:drop] + call.ops[drop + 1 :])
    roles = list(schedule.roles)
    roles[number] = replace(role, calls=(*role.calls[:at], less, *role.calls[at + 1 :]))
    assert not check(replace(schedule, roles=tuple(roles))).is_clean, (role.name, call.label, call.ops[drop].name)


@settings(max_examples=30, deadline=None)
@given(data=st.data(), stages=st.integers(2, 4), micros=st.integers(2, 4))
def test_no_two_exchanges_of_two_roles_can_change_places_in_one_unseen(
    data: st.DataObject, stages: int, micros: int
) -> None:
    """All exchanges between two stages meet in their order."""
    schedule = pipeline(stages, micros)
    number = data.draw(st.integers(0, stages - 1))
    role = schedule.roles[number]
    ends = data.draw(st.sampled_from([(i, i + 1) for i in range(stages - 1) if number in (i, i + 1)]))
    mine = [i for i, call in enumerate(role.calls) if call.label == "exchange" and call.ops[0].ends == ends]  # type: ignore[union-attr]
    a, b = data.draw(st.lists(st.sampled_from(mine), min_size=2, max_size=2, unique=True))
    calls = list(role.calls)
    calls[a], calls[b] = calls[b], calls[a]
    roles = list(schedule.roles)
    roles[number] = replace(role, calls=tuple(calls))
    assert not check(replace(schedule, roles=tuple(roles))).is_clean
