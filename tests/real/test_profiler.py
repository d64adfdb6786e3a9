"""Replays under PyTorch's profiler: traces that a job's traces are read from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simfrontier.inputs.profiler import read_job
from tests.invoke import TOY, invoke
from tests.real.profiled import RANKS, profiled


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
