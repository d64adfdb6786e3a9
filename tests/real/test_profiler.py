"""Replays under PyTorch's profiler: traces that a job's traces are read from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simfrontier.kineto import platform_of, read_job, replayed
from tests.invoke import ROOT, TOY, invoke
from tests.real.ranks import run_ranks

RANKS = 4
LIMIT_S = 240.0


def profiled(schedule: Path, folder: Path, *options: str) -> list[Path]:
    """The traces of a replay of a schedule on so many ranks."""
    words = ["replay", str(schedule), "--out", str(folder / "real"), "--profile", str(folder / "profile"), *options]
    ended = run_ranks([words] * RANKS, LIMIT_S)
    assert set(ended.codes) == {0}, ended
    return sorted((folder / "profile").glob("*.json"))


@pytest.mark.parametrize("plan", ["zero3", "zeropp"])
def test_a_replay_is_read_as_the_schedule_that_it_runs(tmp_path: Path, plan: str) -> None:
    """As many calls, of all ranks in one program."""
    made = invoke("export", TOY, "--plans", plan, "--devices", str(RANKS), "--out", tmp_path / "sim")
    assert made.code == 0
    files = profiled(tmp_path / "sim" / f"schedule-{plan}.json", tmp_path, "--iterations", "2", "--compute", "real")
    assert [path.name for path in files] == [f"{plan}-rank-{rank:03}.json" for rank in range(RANKS)]
    job = read_job(files)
    schedule = json.loads((tmp_path / "sim" / f"schedule-{plan}.json").read_text(encoding="utf-8"))
    assert job.schedule.mesh.num_ranks == RANKS and len(job.schedule.roles) == 1
    trace = json.loads((tmp_path / "sim" / f"trace-{plan}.json").read_text(encoding="utf-8"))["traceEvents"]
    simulated = [event for event in trace if event["ph"] == "X" and event["pid"] == 0 and event["args"].get("axes")]
    assert len(job.call_s[0]) == len(simulated) > 10 and schedule
    assert job.measured_s > 0.0


@pytest.mark.long
def test_the_replay_of_a_real_run_is_within_a_tenth_of_its_step(tmp_path: Path) -> None:
    """Kernels are waits of the simulated length, calls are gloo's; the library's times are measured just before."""
    box, sim = tmp_path / "box.toml", tmp_path / "sim"
    assert set(run_ranks([["measure", "--out", str(box)]] * RANKS, LIMIT_S).codes) == {0}
    scenario = ROOT / "scenarios" / "crosscheck.toml"
    calibrated = ("--set", f"library.calibration={box}")
    made = invoke("export", scenario, *calibrated, "--plans", "zero3", "--devices", str(RANKS), "--out", sim)
    assert made.code == 0, made
    waits = ("--compute", "wait", "--waits", str(sim), "--iterations", "3", "--warmup", "1")
    job = read_job(profiled(sim / "schedule-zero3.json", tmp_path, *waits))
    platform = platform_of(str(scenario), {"library.calibration": str(box)}, "--machine")
    assert replayed(job, platform).step_s == pytest.approx(job.measured_s, rel=0.1)
