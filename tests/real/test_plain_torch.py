"""The tutorial's training in plain PyTorch, made small: real gloo ranks under the profiler, read as a job."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from simfrontier.answers.profiled_job import replayed
from simfrontier.core.workload import GptShape
from simfrontier.inputs.profiler import Job, platform_of, read_job
from tests.invoke import ROOT
from tests.real.ranks import free_port, run_ranks

pytest.importorskip("torch")

TUTORIAL = ROOT / "docs" / "own-job"
SIZES, SMALL = "= 4, 512, 8, 1024, 128, 2\n", "= 2, 32, 2, 64, 16, 2\n"
MODEL = GptShape(
    name="small",
    source="the script",
    num_layers=2,
    hidden=32,
    heads=2,
    vocabulary=64,
    sequence=16,
    tied=False,
    positions="learned",
)
LIMIT_S = 240.0


def job_of(wrap: str, folder: Path, sizes: str = SMALL, ranks: int = 2) -> Job:
    """The job of the traces of so many ranks."""
    text = (TUTORIAL / "train.py").read_text(encoding="utf-8")
    assert text.count(SIZES) == 1
    script, port = folder / "train.py", free_port()
    script.write_text(text.replace(SIZES, sizes), encoding="utf-8")
    place = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, str(script), wrap, str(folder / "traces")], env={**os.environ, **place, "RANK": str(rank)}
        )
        for rank in range(ranks)
    ]
    try:
        assert [each.wait(LIMIT_S) for each in started] == [0] * ranks
    finally:
        for each in started:
            each.kill()
    return read_job(sorted((folder / "traces").glob("*.json.gz")))


def calls(job: Job) -> list[tuple[str, int]]:
    """Kind and elements of the calls."""
    ops = [op.kernel.call for op in job.roles.programs[0][0].ops if op.kernel.call is not None]
    return [(call.meaning, call.num_bytes // 4) for call in ops]


def test_ddp_reduces_every_parameter_once(tmp_path: Path) -> None:
    job = job_of("ddp", tmp_path)
    assert {kind for kind, _ in calls(job)} == {"all_reduce"}
    assert sum(elements for _, elements in calls(job)) == MODEL.num_parameters
    assert job.schedule.mesh.num_ranks == 2 and len(job.schedule.roles) == 1 and job.measured_s > 0.0


def test_fsdp2_gathers_blocks_twice_and_scatters_them_once(tmp_path: Path) -> None:
    """The root is gathered once, as its weights stay; all sizes here divide by two, so nothing is padded. The norms of
    gradients are reduced besides."""
    found = calls(job_of("fsdp2", tmp_path))
    layers = MODEL.num_layers
    assert Counter(kind for kind, _ in found) == {
        "all_gather": 2 * layers + 1,
        "reduce_scatter": layers + 1,
        "all_reduce": 1,
    }
    scattered = [elements for kind, elements in found if kind == "reduce_scatter"]
    gathered = [elements for kind, elements in found if kind == "all_gather"]
    assert sum(scattered) == MODEL.num_parameters
    assert sum(gathered) == 2 * sum(scattered) - scattered[-1]


@pytest.mark.long
@pytest.mark.parametrize("wrap", ["fsdp2", "ddp"])
def test_a_replay_by_calls_measured_just_before_is_near_the_traced_step(tmp_path: Path, wrap: str) -> None:
    """Within 11 % in rounds on a shared computer; a box whose load changes in between shows here."""
    box = tmp_path / "box.toml"
    sizes = ("--sizes", "4KiB,1MiB,4MiB,16MiB,32MiB", "--iterations", "6")
    assert set(run_ranks([["measure", "--out", str(box), *sizes]] * 2, LIMIT_S).codes) == {0}
    job = job_of(wrap, tmp_path, SIZES)
    on = platform_of(str(TUTORIAL / "gpt.toml"), {"library.calibration": str(box)}, "--machine")
    assert replayed(job, on).step_s == pytest.approx(job.measured_s, rel=0.25)
