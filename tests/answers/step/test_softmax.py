"""What a step spends on softmaxes and on the loss, by hand; and that kernels and ways cost what they move."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

import pytest

from simfrontier.answers.step.model_calls import LossCall, Softmaxes, softmaxes
from simfrontier.core.collectives import load_library
from simfrontier.core.engine import Fidelity, SimulatedStep, simulate_step
from simfrontier.core.machine import load_machine
from simfrontier.core.plan import Engine, build, make_plan
from simfrontier.core.plan.tensor import MegatronOptions, engine_of
from simfrontier.core.program.cost import KERNELS
from simfrontier.core.workload import Checkpointing, CrossEntropy, GptShape, Softmax, gpt
from tests.core.plan.grids import megatron

KERNEL_NAMES, WAYS = get_args(Softmax), get_args(CrossEntropy)
# 2 layers of 4 heads, 64 positions, 512 words; 2 sequences of a micro-batch
SHAPE = GptShape(name="by-hand", num_layers=2, hidden=64, heads=4, vocabulary=512, sequence=64, source="for this test")
ROWS = 2 * 64


@cache
def step(
    options: MegatronOptions,
    ranks: int = 1,
    fidelity: Fidelity = "flow",
    softmax: Softmax = "fused",
    attention: Any = "plain",
    micros: int = 1,
    checkpointing: Checkpointing = "full",
) -> SimulatedStep:
    mesh = options.mesh(ranks, 8, 2)
    work = gpt(
        SHAPE, 2 * options.batch_ranks(mesh), checkpointing, precision="bf16", attention=attention, softmax=softmax
    )
    engine = engine_of(options, Engine(persistence_elements=0), 1)
    made = build(work, make_plan("megatron", options, mesh), mesh, engine, micros)
    return simulate_step(made, load_machine("frontier"), load_library("rccl"), fidelity)


def of(*given: Any, **more: Any) -> Softmaxes:
    result = softmaxes(step(*given, **more))
    assert result is not None
    return result


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_bytes_of_whole_rows_by_hand(kernel: Softmax) -> None:
    """Scores: 2 layers × (forward and recomputed) × 2 · 4 · 64² numbers of BF16, as often as the kernel passes over
    them. The loss reads FP32 logits, 128 × 512, and writes a BF16 gradient."""
    result, passes = of(megatron(), softmax=kernel), KERNELS[kernel]
    scores, logits = 2 * 4 * 64 * 64, ROWS * 512
    every = passes.row_reads + passes.result_reads + passes.result_writes
    assert result.scores_bytes == 2 * 2 * scores * 2 * every
    assert result.loss_bytes == logits * (4 * passes.row_reads + 2 * (passes.result_reads + passes.result_writes))
    assert (result.kernel, result.method, result.calls, result.calls_s) == (kernel, "whole", (), 0.0)


@pytest.mark.parametrize("way", WAYS)
def test_ways_by_hand(way: CrossEntropy) -> None:
    """Four ranks, 128 words each; a number of all rows takes 512 bytes. Passes over the FP32 logits, with the BF16
    gradient as half a pass: 7.5, 3.5, 2.5, 2.5; beside them numbers of rows that are written (w) and read (r):
    three: top w r, own w r, total w r; two: top w r r, terms w w r r; one: 3 w, 12 r and 3 w of the merge, 3 r."""
    result = of(megatron(4, cross_entropy=way), 4)
    passes = {"three-all-reduces": 7.5, "fused-two": 3.5, "one-gather": 2.5, "mn-merge": 2.5}[way]
    numbers = {"three-all-reduces": 6, "fused-two": 7, "one-gather": 21, "mn-merge": 21}[way]
    assert result.loss_bytes == passes * ROWS * 128 * 4 + numbers * ROWS * 4
    calls = {
        "three-all-reduces": (LossCall(kind="all_reduce", number=3, rank_bytes=512),),
        "fused-two": (
            LossCall(kind="all_reduce", number=1, rank_bytes=512),
            LossCall(kind="all_reduce", number=1, rank_bytes=1024),
        ),
    }.get(way, (LossCall(kind="all_gather", number=1, rank_bytes=1536),))
    assert (result.method, result.calls) == (way, calls)
    assert result.calls_s > 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fidelity", ["analytic", "flow", "chunk"])
def test_fidelities_agree_on_the_loss(fidelity: Fidelity, way: CrossEntropy) -> None:
    """Stacked gathers too: nothing else runs beside the loss."""
    options = megatron(4, cross_entropy=way)
    exact, result = of(options, 4), of(options, 4, fidelity)
    assert (result.loss_bytes, result.calls) == (exact.loss_bytes, exact.calls)
    assert result.calls_s == pytest.approx(exact.calls_s, rel=0.05)
    assert result.loss_s == pytest.approx(exact.loss_s, rel=1e-6)
