"""Sweeps that add points by themselves: searches, and samples until the goal is known well enough."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from simfrontier.answers.sweep import SweepStudy, goal_answer, run_sweep
from simfrontier.answers.sweep.adaptive import parse_until
from simfrontier.answers.sweep.answers import goal_values
from simfrontier.base.workers import Local
from tests.answers.sweep.studies import HOOK, MICRO, study

HOST = {"key": HOOK, "between": [1e-6, 1e-2], "scale": "log"}
BATCH = {"key": MICRO, "among": [1, 2, 4]}
GOAL = {"column": "tokens_per_s", "plan": "ddp"}
ALONE = Local(jobs=1)


def searching(folder: Path, points: int = 16, **goal: Any) -> SweepStudy:
    return study(folder, HOST, BATCH, goal=GOAL | goal, search={"points": points, "estimates": 32}, plans=["ddp"])


def sampled(folder: Path, method: str, count: int = 8, **goal: Any) -> SweepStudy:
    sampling = {"method": method, "count": count}
    return study(folder, HOST, BATCH, goal=GOAL | goal, sampling=sampling, plans=["ddp"])


def test_a_search_finds_the_end_that_is_best(tmp_path: Path) -> None:
    """Most tokens per second come with the largest micro-batch: estimates know that at once."""
    made = run_sweep(searching(tmp_path), tmp_path / "out", ALONE)
    answer = goal_answer(made.study, tmp_path / "out", 16)
    assert answer is not None and answer.best_point is not None
    best = list(made.study.points())[answer.best_point].settings
    assert (made.counts.points, best[MICRO]) == (16, 4)
    assert answer.so_far[0] > 0.9 * answer.so_far[-1]  # the first point, which estimates proposed, is nearly the best
    assert list(answer.so_far) == sorted(answer.so_far)


def test_a_search_goes_on_to_the_same_points(tmp_path: Path) -> None:
    """Eight points, then sixteen: the second run simulates eight, and the data set is that of sixteen at once."""
    run_sweep(searching(tmp_path), tmp_path / "two", ALONE, until=parse_until("8"))
    second = run_sweep(searching(tmp_path), tmp_path / "two", ALONE, until=parse_until("16"))
    whole = run_sweep(searching(tmp_path), tmp_path / "one", ALONE, until=parse_until("16"))
    assert [point.settings for point in second.study.points()] == [point.settings for point in whole.study.points()]
    parts = [(tmp_path / name / "rows.parquet").read_bytes() for name in ("one", "two")]
    assert parts[0] == parts[1]


def test_samples_double_until_the_mean_is_known(tmp_path: Path) -> None:
    made = run_sweep(sampled(tmp_path, "random"), tmp_path / "out", ALONE, until=parse_until("40%"))
    count = made.counts.points
    values = goal_values(tmp_path / "out", made.study.file.goal, count)  # type: ignore[arg-type]
    mean = sum(values) / count
    sd = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    assert 1.645 * sd / math.sqrt(count) / mean <= 0.4
    assert count in (8, 16, 32, 64, 128)


def test_indices_of_a_study(tmp_path: Path) -> None:
    """The micro-batch changes the step, the accumulation of one plan nothing of another's."""
    other = {"key": "plans.zero1.grad_accum", "among": [1, 2]}
    made = study(
        tmp_path,
        BATCH,
        other,
        goal={"column": "step_time_s", "plan": "ddp"},
        sampling={"method": "saltelli", "count": 16},
    )
    outcome = run_sweep(made, tmp_path / "out", ALONE)
    assert outcome.counts.points == 16 * 4
    answer = goal_answer(made, tmp_path / "out", outcome.counts.points)
    assert answer is not None and answer.indices is not None
    first, second = answer.indices.unknowns
    assert (first.key, second.key) == (MICRO, "plans.zero1.grad_accum")
    assert first.total == pytest.approx(1.0, abs=0.5)
    assert second.first == second.total == 0.0
