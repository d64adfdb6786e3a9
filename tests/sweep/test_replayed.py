"""Studies whose points are replayed from one simulated step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from simfrontier.arrays import Floats
from simfrontier.errors import InputError
from simfrontier.experiments import OFF_BY, Setting
from simfrontier.experiments.replay import FEWEST, MOST, questions
from simfrontier.study import Answers, WhatIfs
from simfrontier.sweep import SweepStudy, read_rows, run_sweep
from simfrontier.workers import Local
from tests.sweep.studies import ACCUM, HOOK, study

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


def test_replayed_steps_which_are_nominal_stand_beside_no_medians(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"replay: answers are nominal steps.*allowed: with uncertainty.samples = 0"):
        sampled(tmp_path, set={"uncertainty.samples": 20})


def test_the_fastest_point_is_simulated(tmp_path: Path) -> None:
    run_sweep(sampled(tmp_path), tmp_path / "out", ALONE)
    rows = read_rows(tmp_path / "out").to_pylist()
    best = max(rows, key=lambda row: row["tokens_per_s"])
    assert best["fidelity"] == "flow"


def test_points_that_turn_out_slower_are_followed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that are all a hundred times too fast: one after the other is simulated, up to eight, until one that is
    simulated is the fastest; none ever is."""
    real = WhatIfs.step_s

    def too_fast(self: WhatIfs, axes: Mapping[str, Floats]) -> Answers:
        found = real(self, axes)
        return replace(found, step_s=found.step_s / 100.0)

    monkeypatch.setattr(WhatIfs, "step_s", too_fast)
    run_sweep(sampled(tmp_path), tmp_path / "out", ALONE)
    assert read_rows(tmp_path / "out").column("fidelity").to_pylist().count("flow") == 8


def test_a_replay_gives_the_same_bytes_again(tmp_path: Path) -> None:
    for name, jobs in (("one", 1), ("two", 2)):
        run_sweep(sampled(tmp_path), tmp_path / name, Local(jobs=jobs))
    parts = [(tmp_path / name / "rows.parquet").read_bytes() for name in ("one", "two")]
    assert parts[0] == parts[1]
    assert run_sweep(sampled(tmp_path), tmp_path / "one", ALONE).known == 40


def settings(*changes: dict[str, float]) -> list[tuple[str, Setting]]:
    return [(str(at), Setting(document={}, where="a.toml", changes=each)) for at, each in enumerate(changes)]


def test_a_question_has_settings_that_differ_in_numbers_alone() -> None:
    asked = questions(settings(*({RATE: 1e12 + number, ACCUM: number % 2} for number in range(10))))
    assert [[int(digest) for digest, _ in each] for each in asked] == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]


def test_questions_are_cut() -> None:
    asked = questions(settings(*({RATE: 1e12 + number} for number in range(MOST + 1))))
    assert [len(each) for each in asked] == [MOST, 1]


def test_few_points_are_simulated(tmp_path: Path) -> None:
    run_sweep(sampled(tmp_path, count=8), tmp_path / "out", ALONE)
    assert FEWEST > 8
    assert set(read_rows(tmp_path / "out").column("fidelity").to_pylist()) == {"flow"}


def test_points_at_which_the_library_takes_another_algorithm_are_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, is_unlike = WhatIfs.step_s, np.arange(40) < 20
    monkeypatch.setattr(WhatIfs, "step_s", lambda self, axes: replace(real(self, axes), is_unlike=is_unlike))
    run_sweep(sampled(tmp_path), tmp_path / "out", ALONE)
    fidelities = read_rows(tmp_path / "out").column("fidelity").to_pylist()
    assert set(fidelities[:20]) == {"flow"} and "replay" in fidelities[20:]
