"""Replays of schedules over gloo with the profiler of torch on, and how near the replay of such a profile comes."""

from __future__ import annotations

from pathlib import Path

from simfrontier.answers.profiled_job import replayed
from simfrontier.inputs.profiler import platform_of, read_job
from tests.invoke import ROOT, invoke
from tests.real.ranks import run_ranks

RANKS = 4
LIMIT_S = 240.0


def profiled(schedule: Path, folder: Path, *options: str) -> list[Path]:
    """The traces of a replay of a schedule on so many ranks."""
    words = ["replay", str(schedule), "--out", str(folder / "real"), "--profile", str(folder / "profile"), *options]
    ended = run_ranks([words] * RANKS, LIMIT_S)
    assert set(ended.codes) == {0}, ended
    return sorted((folder / "profile").glob("*.json"))


def replay_to_real_step(folder: Path) -> float:
    """The step that the replay of a profile gives, as a multiple of the step that ran. Kernels are waits of the
    simulated length, calls are gloo's; the library's times are measured just before, so a box whose load changes in
    between shows here."""
    box, sim = folder / "box.toml", folder / "sim"
    assert set(run_ranks([["measure", "--out", str(box)]] * RANKS, LIMIT_S).codes) == {0}
    scenario = ROOT / "scenarios" / "crosscheck.toml"
    calibrated = ("--set", f"library.calibration={box}")
    made = invoke("export", scenario, *calibrated, "--plans", "zero3", "--devices", str(RANKS), "--out", sim)
    assert made.code == 0, made
    waits = ("--compute", "wait", "--waits", str(sim), "--iterations", "3", "--warmup", "1")
    job = read_job(profiled(sim / "schedule-zero3.json", folder, *waits))
    platform = platform_of(str(scenario), {"library.calibration": str(box)}, "--machine")
    return replayed(job, platform).step_s / job.measured_s
