"""The type checker of schedules on pipelines: every fault is named by the right rule, with the roles concerned."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.schedule import Call, Exchange, Op, Ref, Schedule, check
from simfrontier.schedule.placement import REPLICATE, partial
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


def test_an_exchange_too_many_is_counted() -> None:
    last = exchange("backward", 2)
    twice = in_role(pipeline(), "s0", lambda call, op: [op, op] if last(call, op) else [op])
    says(
        twice, "order: communicator stage between 0 and 1 (ranks of role s1)", "5 calls, as in role s0", "found 4 calls"
    )
    says(twice, "order: exchange of layer 1, micro-batch 2", "(ranks of role s0)", "blocked: role s1 (in tie")


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


def test_messages_of_another_micro_batch_are_another_call() -> None:
    both = in_role(
        pipeline(),
        "s1",
        changed(exchange("both", 2), back_src=(Ref("d.x", 0, -2),), back_dst=(Ref("d.x", 0, -2),)),
    )
    says(
        both,
        "order: exchange of layer 1, micro-batch 2: exchange both",
        "d.x of layer 1, micro-batch 1 (1024 bytes) (fp32), like",
        "found exchange over stage of 0→1: x of layer 1, micro-batch 2 (1024 bytes), "
        "1→0: d.x of layer 1, micro-batch 0",
    )


def test_a_communicator_within_a_stage_is_another_group_in_each_role() -> None:
    """Stages may call `tensor/compute` differently; a communicator over `stage` they may not."""
    more = in_role(pipeline(), "s0", lambda call, op: [op, op] if op.name == "activation" else [op])
    assert "order" not in rules(more)
    less = in_role(pipeline(3), "s2", dropped(where("all_reduce", "norm")))
    says(less, "order: communicator world (ranks of role s2)", "1 calls, as in role s0", "found 0 calls")
    says(less, "order: clip", "(ranks of role s1)", "blocked: role s2 (at its end) does not join it")


# ── references ──


def test_another_layer_received_is_named() -> None:
    """Stage 1 gets the layer after the one that it reads."""
    wrong = mutated(pipeline(), changed(exchange("forward"), dst=(Ref("x", 1),)))
    says(wrong, "references: exchange of layer 1", "x of the layer of x (+0 from the call)", "found +1")
    later = mutated(pipeline(4), changed(exchange("forward"), src=(Ref("x", 1),), dst=(Ref("x", 1),)))
    says(later, "references: ", "x of layer 2, micro-batch 0 written by an op before", "no op writes it")


def test_a_gradient_sent_twice_and_another_never_is_named() -> None:
    """The message of micro-batch 1 carries the gradient of micro-batch 0 again, in both roles."""
    again = (Ref("d.x", 0, -2),)
    wrong = mutated(pipeline(), changed(exchange("both", 2), back_src=again, back_dst=again))
    says(
        wrong,
        "sums: exchange of layer 1, micro-batch 2",
        "(ranks of role s0",
        "d.x of layer 1, micro-batch 0 received once",
    )
    says(wrong, "references: backward of layer 0, micro-batch 1", "d.x of layer 1, micro-batch 1", "no op writes it")


def test_a_gradient_that_is_never_sent_is_named() -> None:
    wrong = mutated(pipeline(), dropped(exchange("backward", 2)))
    says(wrong, "references: backward of layer 0, micro-batch 2", "d.x of layer 1, micro-batch 2", "no op writes it")
    assert "order" not in rules(wrong)


def test_an_exchange_of_other_roles_is_named() -> None:
    schedule = pipeline(3)
    far = mutated(schedule, changed(where("exchange", "forward", layer=2), ends=(0, 2)))
    says(far, "references: ", "(ranks of role s1)", "exchange forward is between stage 0 and 2; role s1 is at stage 1")
    same = mutated(schedule, changed(exchange("forward"), ends=(1, 1)))
    says(same, "references: ", "both ends are stage 1; they differ")
    data = mutated(schedule, changed(exchange("forward"), axis="data"))
    says(data, "references: ", "exchange forward is between data 0 and 1; role s0 is at stage 0")


def test_places_that_do_not_cover_the_axis_are_named() -> None:
    schedule = pipeline(3)
    says(replace(schedule, roles=schedule.roles[:2]), "order: role s1", "no role at stage 2")
    twice = (*schedule.roles[:2], replace(schedule.roles[2], at=("stage", 1)))
    says(replace(schedule, roles=twice), "order: role s2", "stage 1 is the place of role s1 already")


# ── placements ──


def test_what_arrives_lies_as_what_was_sent() -> None:
    schedule = pipeline()
    other = replace(schedule, tensors={**schedule.tensors, "y": replace(schedule.tensors["x"], name="y")})
    moved = mutated(other, changed(exchange("forward"), dst=(Ref("y"),)))
    whole = with_tensor(moved, "y", placement=REPLICATE)
    says(whole, "placements: ", "(ranks of role s0, with s1)", "y as [data:shard(0)] like x", "found [replicate]")
    short = with_tensor(moved, "y", shape=(8, 4, 8))
    says(short, "placements: ", "y with the shape of x, 8×4×16", "found 8×4×8")
    other_type = with_tensor(moved, "y", dtype="fp16")
    says(other_type, "placements: ", "y as fp32, like x", "found fp16")
    turned = with_tensor(with_tensor(moved, "y", dims=("b", "h", "s")), "y", shape=(8, 4, 16))
    says(turned, "placements: ", "y with the labels of x, b×s×h", "found b×h×s")


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


def test_a_tied_gradient_that_one_role_never_makes_is_named() -> None:
    without = mutated(pipeline(), dropped(where("matmul", "head.wgrad")))
    says(without, "sums: norm", "the gradient of embedding.weight", "of the roles s0, s1", "of role s1 nothing")


def test_a_tied_gradient_that_lacks_a_micro_batch_of_one_role_is_named() -> None:
    lost = mutated(pipeline(), dropped(lambda call, op: op.name == "head.wgrad" and call.micro == 1))
    says(lost, "sums: norm", "of the roles s0, s1", "of role s1 micro-batch 0 once, micro-batch 2 once")


def test_a_gradient_that_an_op_makes_twice_in_every_micro_batch_is_named() -> None:
    """As many times from each micro-batch, but not once."""
    twice = mutated(pipeline(), lambda _, op: [op, op] if op.name == "head.wgrad" else [op])
    says(twice, "sums: norm", "the gradient of embedding.weight", "of role s1 micro-batch 0 twice, micro-batch 1 twice")


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


def test_a_weight_that_no_role_or_one_role_does_not_step_is_named() -> None:
    none = mutated(pipeline(), dropped(where("adam", label="step", layer=1)))
    says(none, "sums: end of step: up of layer 1 (ranks of role s1)", "one adam per step; found none")
    neither = mutated(pipeline(), dropped(where("adam", label="step.embedding")))
    for role in ("s0", "s1"):
        says(neither, f"sums: end of step: embedding.weight (ranks of role {role})", "one adam per step; found none")
    one = in_role(pipeline(), "s1", dropped(where("adam", label="step.embedding")))
    says(one, "sums: end of step: embedding.weight (ranks of role s1)", "one adam per step; found none")


def test_a_norm_that_counts_a_tied_weight_twice_is_named() -> None:
    schedule = pipeline()
    (norm,) = next(
        c for c in schedule.roles[0].calls if c.label == "norm" and "embedding" in c.ops[0].reads[0].name
    ).ops
    first = where("norm2")
    twice = in_role(schedule, "s1", lambda call, op: [op, norm] if first(call, op) else [op])
    says(twice, "sums: step", "a norm that counts embedding.weight once", "found twice")


def test_a_norm_that_leaves_out_a_stage_is_named() -> None:
    less = in_role(pipeline(4), "s2", dropped(where("norm2")))
    says(less, "sums: step", "a norm that counts up of layer 2 once", "found not at all")


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


def test_an_unknown_norm_beside_others_is_one_finding() -> None:
    """The first norm adds to what nobody declared; the others are looked at all the same."""
    schedule = pipeline(4)
    first = next(op for op in schedule.distinct_ops() if op.kind == "norm2")
    (target,) = first.accumulates  # type: ignore[union-attr]
    unknown = mutated(schedule, changed(lambda call, op: op is first, accumulates=(target._replace(name="nobody"),)))
    says(unknown, "norm2", "expected a declared tensor", "found 'nobody'")
