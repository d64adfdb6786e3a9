"""Bytes by parallel dimension, worked out by hand on 2 stages × 2 data × 2 tensor ranks."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from simfrontier.answers.step.bytes_moved import SIDES, SentBytes, Side, senders, sent_by_dimension
from simfrontier.core.collectives import exchanged_bytes, message_bytes
from simfrontier.core.program import Compute, Exchange, Schedule
from simfrontier.core.workload import GptShape
from tests.core.plan.grids import megatron, schedule_of

# Sizes by which pieces of all messages divide by 64 bits of zfp:8, which are 8 numbers.
SHAPE = GptShape(
    name="sides", num_layers=2, hidden=64, heads=8, vocabulary=128, sequence=32, source="tests", residual="sequential"
)
H, V, LAYERS, MICROS = 64, 128, 2, 2
STREAM = 32 * 64  # numbers of a micro-batch of one sequence

# A stage has 4 ranks in 2 tensor groups; in each group an all-reduce of S lets every rank send 2 · 1/2 · S = S. Of a
# micro-batch: the embedding, 2 in each layer forward, recomputed and backward, and the input's gradient of the head.
TP_STREAMS = MICROS * 4 * (1 + 3 * 2 * LAYERS + 1)
TP_TOPS, TP_TERMS = MICROS * 4 * 32, MICROS * 4 * 64  # numbers of the loss, in FP32: a maximum, and two sums of each
# 4 pairs of ranks, a message each way for every micro-batch.
PP_MESSAGES = 4 * 2 * MICROS
# Sums over the 4 ranks of stages and tensor: matrices of a layer 12 h², biases of columns 7 h, and 6 h that both tensor
# ranks have; two tables; the last norm. All-reduced by 2 data ranks, S each.
DP_NUMBERS = 2 * (LAYERS * (12 * H * H + 7 * H + 2 * 6 * H) + 2 * V * H + 2 * 2 * H)
SCALARS = 2 * 8 * 2 * Fraction(3, 4) * 4  # overflow and norm, over 2 stages × 2 tensor ranks


def made(precision: str = "fp32", data: str = "ddp", **keys: Any) -> Schedule:
    options = megatron(2, 2, data=data, **{"compress_from": 0, **keys})
    return schedule_of(options, 8, shape=SHAPE, micros=MICROS, precision=precision)


def sent(precision: str = "fp32", data: str = "ddp", **keys: Any) -> dict[Side, SentBytes]:
    return sent_by_dimension(made(precision, data, **keys))


def coded(moved: dict[Side, SentBytes]) -> dict[Side, Fraction]:
    return {side: moved[side].num_bytes for side in SIDES}


PLAIN_TP = 4 * (TP_STREAMS * STREAM + TP_TOPS + TP_TERMS)
PLAIN = {"dp": 4 * DP_NUMBERS, "tp": PLAIN_TP, "pp": 4 * PP_MESSAGES * STREAM, "zero": 0, "other": SCALARS}


def test_without_a_policy_bytes_are_those_of_the_numbers() -> None:
    moved = sent()
    assert coded(moved) == PLAIN
    assert {side: moved[side].plain_bytes for side in SIDES} == PLAIN
    assert [moved[side].share for side in SIDES] == [1, 1, 1, None, 1]


def test_zfp_at_8_bits_sends_a_quarter_of_fp32() -> None:
    """Of the loss, the maximum cannot be added up and stays as it is."""
    moved = sent(compression="naive-zfp:8")
    assert [moved[side].share for side in ("dp", "pp")] == [Fraction(1, 4)] * 2
    assert moved["tp"].num_bytes == TP_STREAMS * STREAM + 4 * TP_TOPS + TP_TERMS
    assert moved["tp"].plain_bytes == PLAIN_TP
    assert moved["other"].share == 1


def test_zero1_halves_what_gradients_send_and_gathers_as_much() -> None:
    moved, small = sent(data="zero1"), sent(data="zero1", compression="ZHybrid:8/16")
    assert moved["dp"].num_bytes == moved["zero"].num_bytes == PLAIN["dp"] / 2
    assert [small[side].share for side in ("dp", "zero", "pp")] == [Fraction(1, 4), Fraction(1, 2), Fraction(1, 2)]


@pytest.mark.parametrize("compression", ["none", "naive-zfp:16", "MZHybrid:8"])
@pytest.mark.parametrize("data", ["ddp", "zero1", "zero3"])
def test_dimensions_sum_to_all_messages(data: str, compression: str) -> None:
    """Call by call: what stages share is in both programs, and is counted at its first."""
    schedule = made(data=data, compression=compression)
    tensors, mesh = schedule.tensors, schedule.mesh
    total = Fraction(0)
    for number, role in enumerate(schedule.roles):
        for _, op in role.instances():
            if isinstance(op, Exchange):
                total += sum(exchanged_bytes(op, tensors, mesh)) * senders(op, schedule) * (number == min(op.ends))
            elif not isinstance(op, Compute) and ("stage" not in op.axes or number == 0):
                total += message_bytes(op, tensors, mesh) * senders(op, schedule)
    assert sum(coded(sent_by_dimension(schedule)).values()) == total
