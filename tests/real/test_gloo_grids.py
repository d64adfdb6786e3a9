"""Tensor grids and pipelines trained on real processes over gloo, up to sixteen; and replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simfrontier.core.program import Compute, Exchange, digest, load, save
from simfrontier.core.trace import read_perfetto
from simfrontier_real.ops.programs import programs_of
from simfrontier_real.verify.verdict import scheduled_bytes
from tests.core.trace.events import arrows
from tests.real.grids import Grid, axonn, megatron
from tests.real.ranks import trained
from tests.some import some

LIMIT_S = 400.0  # of a whole launch, on a box that is busy with other tests

FOUR = (
    megatron(1, 4, order="gpipe", grad_accum=4),
    megatron(2, 2, shape="tied", sequence_parallel=True),
    megatron(2, 2, sequence_parallel=True, product_pieces=2, batch_first=True),
    megatron(4, 1, sequence_parallel=True, product_pieces=2, optimizer="lamb"),
    megatron(1, 2, 2, order="interleaved", chunks=2, data="zero3"),
    axonn(2, 2, 1, shape="parallel"),
    axonn(2, 1, 1, pipeline=2, precision="fp32"),
    megatron(1, 4, overlap_exchange=True, grad_accum=4),
)
OTHERS = (  # what people train, on tensor-parallel ranks and on data axes alone
    megatron(2, 1, 2, shape="llama"),
    megatron(2, 2, shape="bloom"),
    megatron(2, 2, shape="gpt-2", sequence_parallel=True),
    axonn(2, 2, 1, shape="llama", attention="fused"),
    *(megatron(1, 1, 4, shape=shape, data=data) for shape in ("llama", "bloom", "gpt-2") for data in ("ddp", "zero3")),
)
SIXTEEN = (
    axonn(2, 2, 2, 2),
    axonn(2, 2, 2, pipeline=2),
    megatron(2, 2, 4, shape="tied", data="zero1", sequence_parallel=True),
)


@pytest.mark.parametrize(
    ("grids", "steps"),
    [
        pytest.param(FOUR, 2, id="4 ranks"),
        pytest.param(OTHERS, 2, id="4 ranks, other models"),
        pytest.param(SIXTEEN, 2, id="16 ranks", marks=pytest.mark.long),
    ],
)
def test_real_ranks_train_grids_like_the_unsharded_model(grids: tuple[Grid, ...], steps: int, tmp_path: Path) -> None:
    files = saved(grids, tmp_path)
    report, traces = tmp_path / "trained.json", tmp_path / "traces"
    arguments = ["train", *files, "--steps", str(steps), "--json", str(report), "--out", str(traces)]
    trained(arguments, grids[0].schedule.mesh.num_ranks, LIMIT_S)
    results: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))
    for grid, file, result in some(zip(grids, files, results, strict=True)):
        where = f"{grid}: {result['worst']} {result['weights_error']} {result['loss_error']}"
        limit = {"fp64": 1e-10, "fp32": 1e-5}[grid.precision]
        assert result["must_agree"] and result["is_good"], where
        assert result["weights_error"] <= limit and result["loss_error"] <= limit, where
        assert result["message_bytes"] == result["scheduled_bytes"] > 0, where
        traced(Path(file), traces / f"trace-{result['name']}.json")


def saved(grids: tuple[Grid, ...], folder: Path) -> list[str]:
    files = []
    for number, grid in enumerate(grids):
        path = folder / f"schedule-{number:02}.json"
        save(grid.schedule, path)
        files.append(str(path))
    return files


def traced(file: Path, path: Path) -> None:
    """Every rank's spans are the ops of its stage's program; what was sent is what the schedule says."""
    made, trace = load(file), read_perfetto(path)
    programs = programs_of(made)
    assert trace.digest == digest(made)
    for rank, spans in enumerate(trace.spans):
        program = programs.of(rank)
        assert [span.kind for span in spans] == [op.kind for op in program.ops]
        assert sum(span.message_bytes for span in spans) == scheduled_bytes(made, program)
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
    files = saved((megatron(1, 2, grad_accum=2),), tmp_path)
    first, second = tmp_path / "first", tmp_path / "second"
    for out, how in ((first, ["real"]), (second, ["wait", "--waits", str(first)])):
        few = ["--iterations", "2", "--warmup", "1"]
        trained(["replay", *files, "--out", str(out), "--compute", *how, *few], 2, LIMIT_S)
        traced(Path(files[0]), out / "trace-00.json")
