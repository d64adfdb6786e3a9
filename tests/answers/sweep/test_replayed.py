"""Studies whose points are replayed from one simulated step."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest

from simfrontier.answers.experiments import OFF_BY
from simfrontier.answers.sweep import SweepStudy, read_rows, run_sweep
from simfrontier.base.workers import Local
from tests.answers.sweep.studies import HOOK, study

RATE = "machine.overrides.device.matmul_flops_per_s"
AXES = ({"key": RATE, "between": [4e11, 1.9e12], "scale": "log"}, {"key": HOOK, "between": [1e-6, 1e-4]})
ALONE = Local(jobs=1)


def sampled(
    folder: Path, count: int = 40, replay: bool = True, *more: dict[str, object], **tables: object
) -> SweepStudy:
    return study(
        folder, *AXES, *more, sampling={"method": "sobol", "count": count}, plans=["ddp"], replay=replay, **tables
    )


def test_replayed_step_times_are_those_of_simulations(tmp_path: Path) -> None:
    """Within 3 %; others are simulated, and equal."""
    for name, replay in (("quick", True), ("exact", False)):
        run_sweep(sampled(tmp_path, replay=replay), tmp_path / name, ALONE)
    quick, exact = (read_rows(tmp_path / name) for name in ("quick", "exact"))
    for one, other in zip(quick.to_pylist(), exact.to_pylist(), strict=True):
        assert one["step_time_s"] == pytest.approx(other["step_time_s"], rel=0.03)
        for column in ("tflops_per_device", "tokens_per_s"):
            assert one[column] * one["step_time_s"] == pytest.approx(other[column] * other["step_time_s"], rel=1e-12)
        if one["fidelity"] != "replay":
            assert one["step_time_s"] == other["step_time_s"]
    assert pc.sum(pc.equal(quick.column("fidelity"), "replay")).as_py() >= 20
    notes = {row["note"] for row in quick.to_pylist() if row["fidelity"] == "replay"}
    assert notes == {f"replayed from one simulated step; replays are {OFF_BY}"}


def test_the_fastest_point_is_simulated(tmp_path: Path) -> None:
    run_sweep(sampled(tmp_path), tmp_path / "out", ALONE)
    rows = read_rows(tmp_path / "out").to_pylist()
    best = max(rows, key=lambda row: row["tokens_per_s"])
    assert best["fidelity"] == "flow"
