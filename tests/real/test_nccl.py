"""The nccl backend on one GPU: training equal to the unsharded model, and compute times against the roofline."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from simfrontier.core.plan import build, make_plan
from simfrontier.core.program import Compute, Schedule, expand, save, traffic_bytes
from simfrontier.core.trace import Trace, read_perfetto
from simfrontier.core.workload import gpt
from simfrontier_real.measure.rates import DeviceTimer
from tests.core.program.builders import mesh_of, options_of
from tests.real.ranks import ROOT
from tests.real.schedules import EXACT, GPT, PLAIN, schedule

HAS_GPU = torch.cuda.is_available()
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="torch.cuda.is_available() is False: nccl needs a GPU")

FASTER = 1.3  # nothing may beat the bound by more than the noise of what the bound was measured with
SLOWER = 3.0  # the median of the large matrix products reaches a third of it


def run(*arguments: str, module: str = "simfrontier_real") -> subprocess.CompletedProcess[str]:
    """One rank, alone, without a launcher."""
    place = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=place,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("backend", ["gloo", pytest.param("nccl", marks=needs_gpu)])
def test_every_call_of_a_rank_that_is_alone(backend: str) -> None:
    """Schedules of one rank have no calls; these are the library's, of one member, in five types."""
    ended = run(backend, module="tests.real.calls_alone")
    assert (ended.returncode, ended.stdout) == (0, "20 calls\n"), ended.stderr


# ── with a GPU ──


@needs_gpu
@pytest.mark.parametrize("model", ["gpt", "mlp"])
def test_one_rank_on_a_gpu_trains_like_the_unsharded_model(model: str, tmp_path: Path) -> None:
    file, report = tmp_path / "schedule-one.json", tmp_path / "trained.json"
    save(schedule(EXACT["zero3"], (1, 1, 1), 2, precision="fp32", model=model), file)
    ended = run("train", str(file), "--backend", "nccl", "--json", str(report))
    assert ended.returncode == 0, ended.stderr
    (result,) = json.loads(report.read_text(encoding="utf-8"))
    assert result["must_agree"] and result["is_good"]
    assert result["weights_error"] <= 1e-5 and result["loss_error"] <= 1e-5


def large() -> Schedule:
    """A GPT whose matrix products are large enough for a GPU: 8 sequences of 512, hidden 1024."""
    shape = replace(GPT, name="test-gpt-1024", hidden=1024, heads=16, vocabulary=4096, sequence=512)
    mesh = mesh_of(1, 1, 1)
    workload = gpt(shape, 8, "full", precision="fp32")
    return build(workload, make_plan("ddp", options_of("ddp"), mesh), mesh, PLAIN, 1)


@needs_gpu
def test_compute_times_on_a_gpu_keep_to_the_roofline(tmp_path: Path) -> None:
    """An op takes max(flops / peak, bytes / bandwidth) at least; peak and bandwidth are measured here and now."""
    made, file = large(), tmp_path / "schedule-large.json"
    save(made, file)
    ended = run("train", str(file), "--backend", "nccl", "--steps", "8", "--no-reference", "--out", str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    trace = read_perfetto(tmp_path / "trace-large.json")
    ratios = against_the_roofline(made, trace, peak_flops_per_s(), bandwidth_bytes_per_s())
    assert min(ratios.values()) > 1 / FASTER, ratios
    assert statistics.median(ratios.values()) < SLOWER, ratios


def against_the_roofline(made: Schedule, trace: Trace, flops_per_s: float, bytes_per_s: float) -> dict[int, float]:
    """Measured over least time, of the matrix products of 1e9 flops and more."""
    program = expand(made, made.roles[0])
    out = {}
    for span in trace.spans[0]:
        op = program.ops[span.op]
        if isinstance(op, Compute) and op.local_flops(made.mesh) >= 1e9:
            moved = traffic_bytes(op, made.tensors, made.mesh)
            least_s = max(op.local_flops(made.mesh) / flops_per_s, moved / bytes_per_s)
            out[span.op] = (span.end_s - span.start_s) / least_s
    return out


def peak_flops_per_s() -> float:
    """Of a product of 8192 × 8192 matrices in fp32, as training multiplies them."""
    left = torch.rand((8192, 8192), device="cuda")
    return 2.0 * 8192**3 / _seconds(lambda: torch.matmul(left, left))


def bandwidth_bytes_per_s() -> float:
    """Of a copy of 1 GiB: read and written."""
    source = torch.rand(1 << 28, device="cuda")
    return 2.0 * source.nbytes / _seconds(source.clone)


def _seconds(work: Any) -> float:
    """The shortest of some."""
    return DeviceTimer("cuda").times(work).least
