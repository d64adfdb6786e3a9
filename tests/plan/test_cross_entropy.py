"""The loss over cut classes: how many collectives each way to form it takes, of which kind, and of how many bytes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any, get_args

import pytest

from simfrontier.analysis.volumes import step_needs
from simfrontier.codecs import Plain
from simfrontier.collectives import messages_of, sent_share
from simfrontier.errors import InputError
from simfrontier.plan import Engine, build, make_plan
from simfrontier.plan.hops import with_collectives
from simfrontier.plan.moves import Hop, steps_of
from simfrontier.plan.program import CallItems, Move, Program
from simfrontier.plan.tensor import engine_of
from simfrontier.schedule import Collective, Compute, Mesh, Ref, Schedule, Tensor, check
from simfrontier.schedule.cost import traffic_bytes
from simfrontier.schedule.placement import REPLICATE, PartialOp, Placement, flat, partial
from simfrontier.schedule.store import from_json, to_json
from simfrontier.workload import CrossEntropy, GptShape, gpt
from tests.plan.grids import SHAPE, axonn, megatron, schedule_of

WAYS = get_args(CrossEntropy)
every_way = pytest.mark.parametrize("way", WAYS)
# 4 sequences of 2048: 8192 tokens, FP32 numbers: 32 KiB for each number of a row
TOKENS = 8192
KIB = 1024
LONG = GptShape(name="long", num_layers=1, hidden=64, heads=64, vocabulary=1024, sequence=2048, source="for this test")
# (kind, bytes of one rank's contribution) of the loss's collectives in their order
CALLS = {
    "three-all-reduces": [("all_reduce", 32), ("all_reduce", 32), ("all_reduce", 32)],
    "fused-two": [("all_reduce", 32), ("all_reduce", 64)],
    "one-gather": [("all_gather", 96)],
    "mn-merge": [("all_gather", 96)],
}


def of_loss(schedule: Schedule) -> list[Collective]:
    """The collectives of the loss, in the order of the last role's program."""
    ops = [op for _, op in schedule.roles[-1].instances() if isinstance(op, Collective)]
    return [op for op in ops if op.src[0].name.startswith("loss.")]


def kernels_of(schedule: Schedule) -> list[Compute]:
    ops = [op for _, op in schedule.roles[-1].instances() if isinstance(op, Compute)]
    return [op for op in ops if op.kind.startswith("loss") or op.kind == "merge"]


@every_way
@pytest.mark.parametrize("ranks", [2, 8, 64])
def test_collectives_of_the_loss_are_counted(ranks: int, way: Any) -> None:
    """Contributions of 32 and 64 KiB are reduced; of 96 KiB all are held by all: 96 KiB × ranks, of which a rank in a
    ring sends (ranks - 1) × 96 KiB."""
    made = schedule_of(megatron(ranks, cross_entropy=way), ranks, shape=LONG, micro_batch=4)
    result = of_loss(made)
    gives = [made.tensors[op.src[0].name].local_bytes(made.mesh) for op in result]
    assert [(op.kind, size // KIB) for op, size in zip(result, gives, strict=True)] == CALLS[way]
    for op, size in zip(result, gives, strict=True):
        (message,) = messages_of(op, made.tensors, made.mesh)
        held, sent = made.tensors[op.dst[0].name].local_bytes(made.mesh), sent_share(op, "ring", made.mesh)
        if op.kind == "all_gather":
            assert message.num_bytes == held == 96 * KIB * ranks
            assert sent * message.num_bytes == (ranks - 1) * 12 * TOKENS
        else:
            assert message.num_bytes == held == size
            assert sent * message.num_bytes == Fraction(2 * (ranks - 1) * size, ranks)


@every_way
def test_what_a_rank_must_receive_for_the_loss(way: Any) -> None:
    """Of 8 ranks: 2 (1 - 1/8) × 96 KiB to sum three numbers of a row, 7 × 96 KiB to have those of all others.
    Everything else that moves is the same in every way."""
    result, fused = (
        step_needs(schedule_of(megatron(8, cross_entropy=each), 8, shape=LONG, micro_batch=4)).total("tensor")
        for each in (way, "fused-two")
    )
    summed, gathered = 2 * 96 * Fraction(7, 8), Fraction(7 * 96)
    assert result - fused == ((gathered if CALLS[way][0][0] == "all_gather" else summed) - summed) * KIB


@every_way
def test_passes_over_the_logits_are_as_published(way: Any) -> None:
    """Of the FP32 logit shard V/t per row: unfused max R, subtract R+W, exp R+W, sum R, divide R+W; merged 2 R + 1 W.
    The gradient is written in BF16, half as wide; numbers of a row beside 512 logits are few."""
    made = schedule_of(megatron(2, cross_entropy=way), 2, shape=LONG, micro_batch=4)
    shard = TOKENS * LONG.vocabulary // 2 * 4
    moved = sum(traffic_bytes(op, made.tensors, made.mesh) for op in kernels_of(made))
    passes = {"three-all-reduces": 5 + 2.5, "fused-two": 3 + 0.5, "one-gather": 2 + 0.5, "mn-merge": 2 + 0.5}
    assert moved / shard == pytest.approx(passes[way], rel=0.02)


def test_the_default_is_what_is_built_without_the_key() -> None:
    for make in (lambda **keys: megatron(2, **keys), lambda **keys: axonn(2, 2, **keys)):
        plain, fused = (to_json(schedule_of(make(**keys), 8)) for keys in ({}, {"cross_entropy": "fused-two"}))
        assert plain == fused
        assert '"kernel"' not in plain and "merge" not in plain


@every_way
@pytest.mark.parametrize("options", [{}, {"x": 2}, {"z": 2}], ids=str)
def test_where_classes_are_whole_every_way_is_one_op(options: dict[str, int], way: Any) -> None:
    """AxoNN without Y (and Megatron-LM without tensor parallelism) has all classes on every rank."""
    made = schedule_of(axonn(cross_entropy=way, **options), 4)
    assert of_loss(made) == [] and [op.kind for op in kernels_of(made)] == ["loss"]


@every_way
@pytest.mark.parametrize(
    ("options", "ranks"),
    [
        (axonn(2, 2, 2), 16),
        (axonn(1, 3, pipeline=2), 6),
        (megatron(2, 2, sequence_parallel=True), 8),
        (megatron(4, data="zero3"), 8),
        (megatron(2, data="zero1", compression="naive-zfp:8", compress_from=0), 4),
        (megatron(2, message_dtype="fp32", compress_from=0), 4),
    ],
    ids=str,
)
def test_ways_are_sound_under_any_plan_and_never_coded(options: Any, ranks: int, way: Any) -> None:
    made = schedule_of(options.model_copy(update={"cross_entropy": way}), ranks, micros=2)
    assert str(check(made)) == "no findings"
    assert from_json(to_json(made), "again") == made
    kinds = Counter(op.kind for op in of_loss(made))
    assert kinds == Counter({kind: 2 * count for kind, count in Counter(kind for kind, _ in CALLS[way]).items()})
    gathers = [op for op in of_loss(made) if op.kind == "all_gather"]
    assert {(str(op.codec), op.per_hop, made.tensors[op.dst[0].name].stacked) for op in gathers} <= {
        ("fp32", False, op.axes) for op in gathers
    }


def test_the_predicted_logit_is_summed_before_exponentials_are_formed() -> None:
    """Megatron-LM reduces on the compute stream, in this order; nothing runs beside it."""
    made = schedule_of(megatron(2, cross_entropy="three-all-reduces"), 2)
    ops = [op for _, op in made.roles[0].instances() if any("loss." in ref.name for ref in (*op.reads, *op.writes))]
    names = [op.name if isinstance(op, Compute) else op.dst[0].name for op in ops]
    assert names == [
        *("loss.max", "loss.top", "loss.own", "loss.own", "loss.exp", "loss.sum", "loss.total", "loss"),
    ]
    own = next(op for op in ops if isinstance(op, Collective) and op.dst[0].name == "loss.own")
    assert own.lane == "compute"


# ── moves of what is still to be merged ──

MESH = Mesh((("a", 2), ("b", 3), ("c", 4)))


def steps(src: Placement, dst: Placement, *hops: Hop) -> list[tuple[str, tuple[str, ...]]]:
    return [(step.kind, step.axes) for step in steps_of(MESH, ("a", "b", "c"), src, dst, hops, "loss.pairs")]


def test_partial_merge_to_whole_is_a_gather_and_a_merge_over_each_hop() -> None:
    src = partial(("a", "c"), op="merge")
    assert steps(src, REPLICATE, Hop(("a", "c"))) == [("merge", ("a", "c"))]
    assert steps(src, REPLICATE, Hop(("c",)), Hop(("a",))) == [("merge", ("c",)), ("merge", ("a",))]
    assert steps(src, partial(("a",), op="merge"), Hop(("c",))) == [("merge", ("c",))]
    assert steps(src, REPLICATE, Hop(("a", "c"), via="hierarchical")) == [("merge", ("c",)), ("merge", ("a",))]


@pytest.mark.parametrize("dst", [flat(("a",)), Placement((("a", 0),))], ids=str)
def test_what_is_to_be_merged_cannot_be_scattered(dst: Placement) -> None:
    message = r"would scatter over a what is still to be merged; allowed: to gather and merge it whole$"
    with pytest.raises(InputError, match=message):
        steps(partial(("a",), op="merge"), dst, Hop(("a",)))


def test_one_hop_does_not_sum_and_merge() -> None:
    both = Placement(partial=(("a", "sum"), ("b", "merge")))
    with pytest.raises(InputError, match=r"one hop over a, b would reduce by merge and sum; give each its own hop$"):
        steps(both, REPLICATE, Hop(("a", "b")))
    assert steps(both, REPLICATE, Hop(("a",)), Hop(("b",))) == [("all_reduce", ("a",)), ("merge", ("b",))]


@pytest.mark.parametrize("hop", [Hop(("a",), Plain("fp16")), Hop(("a",), Plain("fp32"), per_hop=True)], ids=str)
def test_what_is_to_be_merged_is_never_coded(hop: Hop) -> None:
    def tensor(name: str, how: PartialOp | None) -> Tensor:
        placement = REPLICATE if how is None else partial(("a",), op=how)
        return Tensor(name=name, shape=(4, 3), dtype="fp32", role="activation", placement=placement, per_micro=True)

    tensors = {"v.partial": tensor("v.partial", "merge"), "v": tensor("v", None)}
    move = Move(purpose="activation", src=(Ref("v.partial"),), dst=(Ref("v"),), hops=(hop,), num_elements=12)
    program = Program(pieces=(CallItems("head", 0, 0, (move,)),), tensors=tensors)
    with pytest.raises(InputError, match=r"^activation: v.partial is still to be merged over a, but its hop sends "):
        with_collectives(program, MESH, frozenset())


def test_two_axes_that_cut_classes_are_gathered_in_one_call() -> None:
    """A plan of one's own that cuts the vocabulary over both axes of a grid: 6 ranks' numbers side by side."""
    options = megatron(6, cross_entropy="mn-merge")
    mesh = Mesh((("data", 2), ("slow", 2), ("tensor", 3)))
    plan = make_plan("two", options, options.mesh(12, 1, 1))
    cuts = dict.fromkeys(plan.cuts, ("slow", "tensor"))
    hops = {**plan.hops, "scalar": (Hop(mesh.live(mesh.names)),)}
    engine = engine_of(options, Engine(persistence_elements=0))
    made = build(gpt(SHAPE, 2, checkpointing="none"), replace(plan, cuts=cuts, hops=hops), mesh, engine)
    assert str(check(made)) == "no findings"
    (gather,) = of_loss(made)
    assert gather.axes == ("slow", "tensor")
    assert made.tensors[gather.dst[0].name].local_bytes(mesh) == 6 * 24 * 3 * 4


def test_what_is_merged_is_sent_in_its_own_type_whatever_messages_are_made_of() -> None:
    options = megatron(2, cross_entropy="mn-merge", message_dtype="fp32")
    (gather,) = of_loss(schedule_of(options, 2, precision="fp64"))
    assert gather.codec == Plain("fp64")
