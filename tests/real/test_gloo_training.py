"""Training and replay on real processes over gloo, on two to sixteen ranks, against the unsharded model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simfrontier.core.program import Compute, Exchange, Schedule, digest, load, save
from simfrontier.core.trace import read_perfetto
from simfrontier_real.ops.programs import programs_of
from simfrontier_real.train.states import model_dtype
from simfrontier_real.verify.verdict import scheduled_bytes
from tests.core.trace.events import arrows
from tests.real.grids import axonn, context, megatron
from tests.real.ranks import trained
from tests.real.schedules import ENGINES, EXACT, PLAIN, QUANTISED, STALE, Sizes, schedule
from tests.real.together import EQUAL
from tests.some import some

LIMIT_S = 400.0  # of a whole launch, on a box that is busy with other tests
TIGHT, BY_LAYER, NO_OVERLAP = ENGINES["tight"], ENGINES["by layer"], ENGINES["no overlap"]
CODED: dict[str, Any] = {"data": "zero1", "precision": "fp32", "compress_from": 0}


def plan(name: str, sizes: Sizes, precision: str = "fp64", **how: Any) -> Schedule:
    return schedule({**EXACT, **QUANTISED, "stale": STALE}[name], sizes, precision=precision, **how)


def two() -> list[Schedule]:
    return [
        plan("ddp", (1, 1, 2), grad_accum=2),
        plan("zero1", (2, 1, 1), checkpointing="none"),
        plan("zero2", (1, 1, 2), grad_accum=2, engine=TIGHT),
        plan("zero3", (2, 1, 1), grad_accum=2, engine=TIGHT),
        plan("hsdp", (1, 1, 2), checkpointing="none", engine=BY_LAYER),
        plan("zeropp", (2, 1, 1), grad_accum=2),
        plan("zero-topo", (1, 1, 2), checkpointing="none", engine=NO_OVERLAP),
        plan("reversed", (2, 1, 1), model="mlp", grad_accum=2),
        plan("zero3", (1, 2, 1), "fp32", grad_accum=2),
        plan("zero-topo", (1, 1, 2), "bf16"),
        plan("zero2", (1, 1, 2), "fp16", model="mlp"),
        plan("zero1 next", (1, 1, 2), grad_accum=2),
        plan("zero1 scattered", (1, 1, 2), "bf16", gradients="fp32", grad_accum=2),
        plan("zero3", (1, 1, 2), optimizer="lamb", grad_accum=2),
        plan("zero1", (1, 1, 2), optimizer="muon", grad_accum=2),
        plan("zero2", (1, 1, 2), model="tied", grad_accum=2),
        plan("zero1", (1, 1, 2), "bf16", moments="bf16", grad_accum=2),
        plan("zero3", (1, 1, 2), "bf16", moments="bf16", master="bf16"),
    ]


def four() -> list[Schedule]:
    return [
        plan("ddp", (2, 1, 2), checkpointing="none"),
        plan("zero-topo", (2, 1, 2), "fp32", optimizer="lamb"),
        megatron(2, 1, 2, data="zero1", shape="experts", expert=2, optimizer="muon").schedule,
        plan("zero1", (1, 2, 2), grad_accum=2),
        plan("zero2 scattered", (2, 2, 1), grad_accum=2, engine=TIGHT),
        plan("node all-reduced", (2, 2, 1), grad_accum=2),
        plan("zero3", (2, 1, 2), grad_accum=2, engine=TIGHT),
        plan("hsdp", (2, 1, 2), grad_accum=2),
        plan("zeropp", (2, 1, 2), checkpointing="none", engine=TIGHT),
        plan("zero3", (2, 1, 2), model="tied", grad_accum=2, checkpointing="none"),
        plan("zero3", (2, 1, 2), model="adapters", grad_accum=2),
        plan("copy", (2, 2, 1), grad_accum=2, checkpointing="none"),
        plan("hierarchical", (2, 1, 2), engine=BY_LAYER),
        plan("zero-topo", (4, 1, 1), "bf16", model="mlp", grad_accum=2),
        plan("zero2", (1, 2, 2), "fp16", model="mlp"),
        plan("qwz and qgz", (2, 1, 2), "fp32"),
        plan("stale", (2, 1, 2), grad_accum=2),
    ]


def grids() -> list[Schedule]:
    """Tensor grids and pipelines, other models, ways to form the loss over cut classes, and codecs of messages."""
    made = [
        megatron(1, 4, order="gpipe", grad_accum=4),
        megatron(2, 2, shape="tied", sequence_parallel=True),
        megatron(2, 2, sequence_parallel=True, product_pieces=2, batch_first=True),
        megatron(4, 1, sequence_parallel=True, product_pieces=2, optimizer="lamb"),
        megatron(1, 2, 2, order="interleaved", chunks=2, data="zero3"),
        megatron(1, 4, order="zb-h1", grad_accum=6),
        megatron(1, 2, 2, order="zb-v", chunks=2, grad_accum=3, data="zero2", overlap_gradients=True),
        megatron(2, 2, order="dualpipev", chunks=2, grad_accum=5, shape="tied", sequence_parallel=True),
        axonn(2, 2, 1, shape="parallel"),
        axonn(2, 1, 1, pipeline=2, precision="fp32"),
        megatron(1, 4, overlap_exchange=True, grad_accum=4),
        megatron(1, 2, 2, layers=(3, 1), expert=2, shape="deepseek", data="zero1"),
        megatron(2, 1, 2, shape="llama"),
        megatron(2, 2, shape="further", sequence_parallel=True, layers="even"),
        megatron(2, 2, shape="llama", checkpointing="none", offload_activations=1),
        megatron(2, 2, shape="bloom"),
        megatron(1, 1, 4, expert=4, shape="experts", engine=replace(PLAIN, synchronise="experts")),
        megatron(1, 1, 4, expert=2, dispatch="all_gather", shape="drops", data="zero1"),
        megatron(2, 1, 2, expert=4, expert_tensor=1, sequence_parallel=True, shape="deepseek", data="zero1"),
        context(2, "gather", 2, sequence_parallel=True),
        context(4, "gather"),
        context(4, "ring"),
        context(2, "ring", 2, sequence_parallel=True, checkpointing="none"),
        context(4, "ring", context_heads=2),
        context(4, "gather", context_heads=2, data="zero1"),
        context(4, "heads", shape="sequential"),
        megatron(2, 2, shape="gpt-2", sequence_parallel=True),
        axonn(2, 2, 1, shape="llama", attention="fused"),
        megatron(1, 1, 4, shape="gpt-2", data="zero3"),
        *(megatron(4, cross_entropy=way) for way in ("three-all-reduces", "fused-two", "one-gather", "mn-merge")),
        megatron(1, 2, 2, softmax="two-pass"),
        *(megatron(1, 2, 2, compression=each, **CODED) for each in ("naive-mpc", "naive-zfp:16", "ZHybrid:8/16")),
    ]
    return [each.schedule for each in made]


def eight() -> list[Schedule]:
    return [
        plan("ddp", (2, 2, 2), model="mlp"),
        plan("zero3", (2, 2, 2), grad_accum=2),
        plan("zeropp", (2, 2, 2)),
        plan("zero-topo", (2, 2, 2), grad_accum=2),
        plan("odd order", (2, 2, 2), checkpointing="none"),
        plan("quantised topo", (2, 2, 2), "fp32", grad_accum=2),
    ]


def sixteen() -> list[Schedule]:
    tied = megatron(2, 2, 4, shape="tied", data="zero1", sequence_parallel=True)
    return [axonn(2, 2, 2, 2).schedule, axonn(2, 2, 2, pipeline=2).schedule, tied.schedule]


def saved(made: list[Schedule], folder: Path) -> list[Path]:
    files = [folder / f"schedule-{number:02}.json" for number in range(len(made))]
    for each, file in zip(made, files, strict=True):
        save(each, file)
    return files


@pytest.mark.parametrize(
    ("make", "steps", "apart"),
    [
        pytest.param(four, 3, 4, id="4 ranks"),
        pytest.param(grids, 2, 2, id="4 ranks, grids"),
        pytest.param(two, 20, 5, id="2 ranks, twenty steps", marks=pytest.mark.long),
        pytest.param(eight, 3, 1, id="8 ranks", marks=pytest.mark.long),
        pytest.param(sixteen, 2, 0, id="16 ranks", marks=pytest.mark.long),
    ],
)
def test_real_ranks_train_like_the_unsharded_model(make: Any, steps: int, apart: int, tmp_path: Path) -> None:
    """Steps of Adam: float64 to 1e-10, float32 to 1e-5; what is quantised, 16-bit or stale is
    `apart`."""
    made = make()
    files = saved(made, tmp_path)
    report, traces = tmp_path / "trained.json", tmp_path / "traces"
    arguments = ["train", *map(str, files), "--steps", str(steps), "--json", str(report), "--out", str(traces)]
    ended = trained(arguments, made[0].mesh.num_ranks, LIMIT_S)
    results: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))
    assert sum(not result["must_agree"] for result in results) == apart
    for each, file, result in some(zip(made, files, results, strict=True)):
        where = f"{each.meta['plan']}: {result['worst']} {result['weights_error']} {result['loss_error']}"
        assert result["digest"] == digest(each), where
        assert result["is_good"] and result["message_bytes"] == result["scheduled_bytes"], where
        assert len(result["losses"]) == len(result["reference_losses"]) == steps
        (line,) = [line for line in ended.out.splitlines() if line.startswith(f"{result['name']} ")]
        assert "as scheduled" in line and f"{result['weights_error']:.1e}" in line
        if result["must_agree"]:
            limit = EQUAL[model_dtype(each)]
            assert result["weights_error"] <= limit and result["loss_error"] <= limit, where
            assert line.endswith("  equal")
        else:
            assert 1e-7 < result["weights_error"] < 0.5 and result["loss_error"] < 0.05, where
            assert line.endswith(f"  apart within bounds: {result['reason']}")
        traced(file, traces / f"trace-{result['name']}.json")


def traced(file: Path, path: Path) -> None:
    """Every rank's spans are the ops of its stage's program; what was sent is what the schedule says."""
    made, trace = load(file), read_perfetto(path)
    programs = programs_of(made)
    assert trace.digest == digest(made)
    for rank, spans in enumerate(trace.spans):
        program = programs.of(rank)
        assert [span.kind for span in spans] == [op.kind for op in program.ops]
        counted = {index for index, op in enumerate(program.ops) if isinstance(op, Compute) or not op.codec.is_measured}
        assert sum(span.message_bytes for span in spans if span.op in counted) == scheduled_bytes(made, program)
        for span, op in zip(spans, program.ops, strict=True):
            if isinstance(op, Exchange):
                assert (span.kind, span.axes, span.level) == ("exchange", "stage", "intra_node")
                assert span.ready_s <= span.start_s <= span.end_s
    for arrow in some(arrows(json.loads(path.read_text(encoding="utf-8"))["traceEvents"])):
        sent, received = (
            programs.of(rank).ops[span["args"]["op"]]
            for rank, span in ((arrow.source, arrow.left), (arrow.target, arrow.reached))
        )
        assert not isinstance(sent, Compute) and sent.name == received.name
        axes = (sent.axis,) if isinstance(sent, Exchange) else sent.axes
        assert any({arrow.source, arrow.target} <= set(group) for group in made.mesh.groups(axes).tolist())
        if isinstance(sent, Exchange):
            at = programs.of(arrow.source).at
            assert at is not None and sent.at(at[1])[0], "an arrow from a rank that sends nothing"


def test_a_pipeline_is_replayed_by_the_waits_of_a_trace(tmp_path: Path) -> None:
    """A replay with real compute gives the trace whose times another replay waits by: per stage its own."""
    (file,) = saved([megatron(1, 2, grad_accum=2).schedule], tmp_path)
    first, second = tmp_path / "first", tmp_path / "second"
    for out, how in ((first, ["real"]), (second, ["wait", "--waits", str(first)])):
        few = ["--iterations", "2", "--warmup", "1"]
        trained(["replay", str(file), "--out", str(out), "--compute", *how, *few], 2, LIMIT_S)
        traced(file, out / "trace-00.json")
