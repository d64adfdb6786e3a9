"""Bytes of device memory that the ops of queues, memories and a following teacher move on one rank, worked by hand."""

from __future__ import annotations

import pytest

from simfrontier.core.program import Schedule, traffic_bytes
from simfrontier.core.program.ir import Compute
from simfrontier_extras.mugs.tests.test_plan import run_of, tiny


def op_named(schedule: Schedule, name: str) -> Compute:
    (op,) = (op for op in schedule.ops if isinstance(op, Compute) and op.name == name)
    return op


def moved(schedule: Schedule, name: str) -> int:
    return traffic_bytes(op_named(schedule, name), schedule.tensors, schedule.mesh)


# ViT-L, 16 images on each of 40 ranks: 640 images; 32 crops of the teacher and 192 of the student on a rank; rows of
# 1024 numbers, keys of 256, queues of 65536 entries, a query among 8 neighbours (9 tokens); in MB of 10^6 bytes
VIT_L = [
    ("instance.enqueue", 2.621),  # 2 × 2 × 640 × 256 × 4; the queue itself has 67.1
    ("group.enqueue", 2.621),
    ("teacher/enqueue", 5.243),  # 2 × 640 × 1024 × 4; the memory has 268.4, three times
    ("student/enqueue", 5.244),  # and 2 × 640 bytes of flags
    ("teacher/pick", 0.131),  # 2 × 16 × 1024 × 4
    ("student/pick", 0.131),
    ("teacher/similarity", 276.955),  # 32 × 1024 × 4 = 0.131, 65536 × 1024 × 4 = 268.435, 32 × 65536 × 4 = 8.389
    ("student/similarity", 319.554),  # 192 × 1024 × 4 = 0.786, 268.435, 192 × 65536 × 4 = 50.332
    ("teacher/nearest", 10.748),  # 8.389 and 2 × 32 × 9 × 1024 × 4 = 2.359
    ("student/nearest", 64.487),  # 50.332 and 2 × 192 × 9 × 1024 × 4 = 14.156
    ("student/nearest.backward", 1.573),  # 2 × 192 × 1024 × 4
    ("teacher/first", 0.262),  # 2 × 32 × 1024 × 4
    ("student/first", 1.573),
    ("student/first.backward", 7.864),  # 192 × 1024 × 4 = 0.786 and 9 times that, 7.078
]


@pytest.mark.parametrize(("name", "megabytes"), VIT_L)
def test_of_vit_l(name: str, megabytes: float) -> None:
    assert round(moved(run_of("l", 40, 16), name) / 1e6, 3) == megabytes


def emas(schedule: Schedule) -> dict[str, int]:
    """Bytes of every moving average, by the weight that it follows."""
    results = [op for op in schedule.ops if isinstance(op, Compute) and op.kind == "ema"]
    return {op.reads[0].name: traffic_bytes(op, schedule.tensors, schedule.mesh) for op in results}


def test_a_moving_average_reads_weight_and_state_and_writes_the_state() -> None:
    """Of 4 bytes a number: 12 for each. tiny-mugs: patches 16 × 48, the last matrix 12 × 8. ViT-L: a layer's qkv
    3 × 1024 × 1024 (37.7 MB), patches 1024 × 768 (9.4 MB), the last matrix 65536 × 256 (201.3 MB)."""
    small, large = emas(tiny()), emas(run_of("l", 40, 16))
    assert small["patch.weight"] == 12 * 16 * 48 == 9216
    assert small["last.weight"] == 12 * 12 * 8 == 1152
    assert round(large["qkv.weight"] / 1e6, 1) == 37.7
    assert round(large["patch.weight"] / 1e6, 1) == 9.4
    assert round(large["last.weight"] / 1e6, 1) == 201.3
