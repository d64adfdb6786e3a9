"""Context parallelism: what moves between ranks that divide the sequence, what they hold, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from simfrontier.answers.step import sent_by_dimension
from simfrontier.answers.step.volumes import step_needs
from simfrontier.base.errors import InputError
from simfrontier.core.collectives.volume import brought_bytes, message_bytes, sent_share
from simfrontier.core.plan import Engine, build, make_plan
from simfrontier.core.program import SHIFT, Collective, Compute, Op, Schedule, check, digest, expand, from_json, to_json
from simfrontier.core.workload import Attention, GptShape, gpt
from tests.core.plan.grids import SHAPE, megatron

LLAMA: Final = replace(SHAPE, kv_heads=8, positions="rotary", causal=True, norm="rmsnorm", biases=False)
BF16 = 2
QUERIES, KEYS = 48, 16  # features of all heads


def built(
    context: int,
    tensor: int = 1,
    replicas: int = 1,
    *,
    shape: GptShape = LLAMA,
    attention: Attention = "fused",
    **keys: Any,
) -> Schedule:
    options = megatron(tensor, context=context, **keys)
    options.refuse_shape(shape)
    mesh = options.mesh(context * tensor * replicas, 1, 1)
    work = gpt(shape, options.batch_ranks(mesh), "none", precision="bf16", attention=attention)
    return build(work, make_plan("megatron", options, mesh), mesh, Engine(persistence_elements=0))


def of_layer(schedule: Schedule, *axes: str) -> Counter[tuple[str, str]]:
    """Bytes that a rank brings into the calls over these axes in layer 0's forward and backward, by kind and value."""
    out: Counter[tuple[str, str]] = Counter()
    for call in schedule.roles[0].calls:
        if call.layer == 0 and call.label in ("forward", "backward"):
            for op in call.ops:
                if isinstance(op, Collective) and op.axes == axes and schedule.tensors[op.src[0].name].weight is None:
                    for src in op.src:
                        one = replace(op, src=(src,))
                        value = schedule.tensors[src.name].value
                        out[f"{call.label} {op.kind}", value] += brought_bytes(one, schedule.tensors, schedule.mesh)
    return out


def test_keys_and_values_are_gathered_and_their_gradients_scattered() -> None:
    ranks, local = 4, 24 // 4
    made = of_layer(built(ranks, context_by="gather"), "context")
    own, whole = local * KEYS * BF16, 24 * KEYS * BF16
    assert made == {
        ("forward all_gather", "rotary.key"): own,
        ("forward all_gather", "value.out"): own,
        ("backward all_gather", "rotary.key"): own,
        ("backward all_gather", "value.out"): own,
        ("backward reduce_scatter", "d.key"): whole,
        ("backward reduce_scatter", "d.value"): whole,
    }


def test_heads_are_exchanged_for_a_cut_of_the_sequence() -> None:
    """Every rank brings its positions of all heads, and keeps 1/n of them: (n - 1)/n of its own travel."""
    ranks, local = 4, 24 // 4
    made = of_layer(built(ranks, context_by="heads"), "context_heads")
    queries, keys = local * QUERIES * BF16, local * KEYS * BF16
    forward = {"rotary.query": queries, "rotary.key": keys, "value.out": keys, "context": queries}
    backward = {"d.context": queries, "d.query": queries, "d.key": keys, "d.value": keys}  # the rest was kept
    expected = {("forward all_to_all", name): size for name, size in forward.items()}
    expected |= {("backward all_to_all", name): size for name, size in backward.items()}
    assert made == expected


def test_a_ring_brings_keys_and_values_in_steps_of_one_block() -> None:
    """n - 1 steps of a block each, keys and values in one message; the backward takes as many again, and as many for
    their gradients."""
    ranks = 4
    schedule = built(ranks)
    steps = [
        (call.label, op)
        for call in schedule.roles[0].calls
        for op in call.ops
        if call.layer == 0 and isinstance(op, Collective) and op.axes == ("context",) and op.turns
    ]
    block = 24 // ranks * KEYS * BF16
    sizes = Counter((label, op.kind, message_bytes(op, schedule.tensors, schedule.mesh)) for label, op in steps)
    assert sizes == {
        ("forward", "all_gather", 2 * block): ranks - 1,
        ("backward", "all_gather", 2 * block): ranks - 1,
        ("backward", "reduce_scatter", 2 * block): ranks - 1,
    }
    assert {float(sent_share(op, SHIFT, schedule.mesh)) for _, op in steps} == {1.0}


def test_a_ring_needs_what_gathers_and_scatters_need() -> None:
    """(n - 1)/n of keys, values and their gradients: the same bytes on the wires, in steps."""
    ring, gather = (built(4, context_by=by) for by in ("ring", "gather"))
    assert sent_by_dimension(ring) == sent_by_dimension(gather)
    assert step_needs(ring).total("context", "activation") == step_needs(gather).total("context", "activation") > 0


def test_a_ring_holds_two_blocks_of_keys_and_values() -> None:
    """Of 8 ranks, a gather holds keys and values of all positions in attention's backward, and partial gradients of
    both; a ring holds two blocks of each."""
    ranks = 8
    whole, blocks = (built(ranks, context_by=by, shape=replace(LLAMA, sequence=48)) for by in ("gather", "ring"))
    every, two = 48 * KEYS * BF16, 2 * 48 // ranks * KEYS * BF16
    for name in ("rotary.key.gathered.forward", "value.out.gathered.backward", "d.key.partial"):
        assert whole.tensors[name].held_bytes(whole.mesh) == every
        assert blocks.tensors[name].held_bytes(blocks.mesh) == two


def test_steps_of_a_ring_overlap_with_attention_to_what_has_arrived() -> None:
    """Piece i of attention waits for step i alone; step i of the gradients' ring for piece i."""
    schedule = built(4)
    program = expand(schedule, schedule.roles[0])
    at = {
        (call.label, op.kind, op.piece.number): index
        for index, (call, op) in enumerate(zip(program.calls, program.ops, strict=True))
        if call.layer == 0 and op.piece is not None
    }
    lane = program.lanes.index("context")
    for label in ("forward", "backward"):
        assert not any(waited == lane for waited, _ in program.waits[at[label, "attention", 0]])
        for number in (1, 2, 3):
            step = at[label, "all_gather", number]
            assert (lane, program.position[step] + 1) in program.waits[at[label, "attention", number]]
    for number in (1, 2, 3):
        piece = at["backward", "attention", number]
        assert (program.lane[piece], program.position[piece] + 1) in program.waits[
            at["backward", "reduce_scatter", number]
        ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda ops: [op for op in ops if not (op.kind == "slice" and op.piece)], "a slice of the own block before it"),
        (
            lambda ops: [op for op in ops if not (op.kind == "all_gather" and op.piece)],
            "the steps of a gather that turns",
        ),
        (lambda ops: [op for op in ops if not (op.piece and op.piece.number == 2)], "pieces 0..3 of one op, in order"),
    ],
)
def test_a_ring_with_a_step_missing_is_found(change: Callable[[list[Op]], list[Op]], expected: str) -> None:
    schedule = built(4)
    (role,) = schedule.roles
    calls = tuple(replace(call, ops=tuple(change(list(call.ops))), block=-1) for call in role.calls)
    assert expected in str(check(replace(schedule, roles=(replace(role, calls=calls),))))


def test_two_levels_exchange_heads_inside_groups_and_gather_between_them() -> None:
    """Of 4 ranks, 2 exchange heads: a rank then has half of the heads' keys of 12 positions, which 2 groups gather."""
    schedule = built(4, context_by="gather", context_heads=2)
    gathered = of_layer(schedule, "context")["forward all_gather", "rotary.key"]
    assert gathered == 12 * KEYS // 2 * BF16
    assert of_layer(schedule, "context_heads")["forward all_to_all", "rotary.key"] == 6 * KEYS * BF16


@pytest.mark.parametrize(
    ("by", "attention"),
    [("gather", "plain"), ("gather", "fused"), ("heads", "plain"), ("heads", "fused"), ("ring", "fused")],
)
def test_schedules_are_clean_and_ranks_have_equal_parts_of_the_work(by: str, attention: Attention) -> None:
    one = built(1, attention=attention)
    cut = built(4, 2, 2, attention=attention, context_by=by, sequence_parallel=True, data="zero1")
    assert str(check(cut)) == "no findings"
    assert digest(from_json(to_json(cut), "a file")) == digest(cut)

    def flops(schedule: Schedule) -> float:
        ops = (op for call in schedule.roles[0].calls for op in call.ops if isinstance(op, Compute))
        return sum(op.local_flops(schedule.mesh) for op in ops)

    # of an embedding's table and head, of layers and attention: every rank has 1/8 of a sequence
    assert flops(cut) == pytest.approx(flops(one) / 8)


def test_states_are_divided_over_data_and_context() -> None:
    made = built(4, 1, 2, context_by="gather", data="zero1")
    assert made.tensors["qkv.weight.master"].placement.flat == {"data", "context"}
    assert made.tensors["x"].placement.shards == (("data", 0), ("context", 1))


@pytest.mark.parametrize(
    ("keys", "shape", "message"),
    [
        ({"context": 5}, LLAMA, "2 × context = 10 does not divide sequence = 24; nearest that do: 8 and 12"),
        (
            {"context": 3, "context_by": "heads"},
            LLAMA,
            "context = 3 does not divide kv_heads = 8; nearest that do: 2 and 4",
        ),
        ({"context": 4, "context_heads": 3}, LLAMA, "context_heads = 3 does not divide context = 4"),
        (
            {"context": 2},
            replace(LLAMA, dropout=True),
            "dropout of attention is not modelled; allowed: dropout = false",
        ),
        ({"context": 2}, SHAPE, 'allowed: positions = "rotary", or context_by = "heads"'),
        ({"context": 2, "compression": "MZHybrid:8"}, LLAMA, "context = 2: what moves is not compressed; allowed: 1"),
    ],
)
def test_what_does_not_divide_is_refused_with_the_nearest_that_does(
    keys: dict[str, Any], shape: GptShape, message: str
) -> None:
    with pytest.raises(InputError) as refused:
        megatron(1, **keys).refuse_shape(shape)
    assert message in str(refused.value)
