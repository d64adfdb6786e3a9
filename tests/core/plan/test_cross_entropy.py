"""Cross-entropy over a sharded vocabulary: number, kind and bytes of collectives of each method."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any, get_args

import pytest

from simfrontier.core.collectives import messages_of, sent_share
from simfrontier.core.program import Collective, Compute, Schedule, check, traffic_bytes
from simfrontier.core.program.store import from_json, to_json
from simfrontier.core.workload import CrossEntropy, GptShape
from tests.core.plan.grids import axonn, megatron, schedule_of

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
@pytest.mark.parametrize("ranks", [8])
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
def test_passes_over_the_logits_are_as_published(way: Any) -> None:
    """Of the FP32 logit shard V/t per row: unfused max R, subtract R+W, exp R+W, sum R, divide R+W; merged 2 R + 1 W.
    The gradient is written in BF16, half as wide; numbers of a row beside 512 logits are few."""
    made = schedule_of(megatron(2, cross_entropy=way), 2, shape=LONG, micro_batch=4)
    shard = TOKENS * LONG.vocabulary // 2 * 4
    moved = sum(traffic_bytes(op, made.tensors, made.mesh) for op in kernels_of(made))
    passes = {"three-all-reduces": 5 + 2.5, "fused-two": 3 + 0.5, "one-gather": 2 + 0.5, "mn-merge": 2 + 0.5}
    assert moved / shard == pytest.approx(passes[way], rel=0.02)


@every_way
@pytest.mark.parametrize(
    ("options", "ranks"),
    [
        (axonn(2, 2, 2), 16),
        (megatron(2, 2, sequence_parallel=True), 8),
        (megatron(4, data="zero3"), 8),
        (megatron(2, data="zero1", compression="naive-zfp:8", compress_from=0), 4),
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
