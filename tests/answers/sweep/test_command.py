"""`simfrontier sweep`: what it prints, writes and counts."""

from __future__ import annotations

import json
from pathlib import Path

from tests.answers.sweep.studies import MICRO, document, write
from tests.invoke import invoke


def test_it_says_the_best_of_each_plan_and_where_the_rows_are(tmp_path: Path) -> None:
    path = write(tmp_path, document({"key": MICRO, "values": [1, 2]}))
    ran = invoke("sweep", path, "--out", tmp_path / "out", "--jobs", "1")
    assert (ran.code, ran.err) == (0, "")
    assert f"Point 1: {MICRO} = 2." in ran.out and f"{tmp_path / 'out' / 'rows.parquet'} (4 rows)" in ran.out
    again = invoke("sweep", path, "--out", tmp_path / "out", "--jobs", "1", "--json")
    found = json.loads(again.out)
    assert (found["points"], found["rows"], found["known"], found["refused"]) == (2, 4, 2, 0)
    assert [best["plan"] for best in found["best"]] == ["ddp", "zero1"]


def test_refused_points_are_counted_and_all_of_them_are_exit_code_1(tmp_path: Path) -> None:
    path = write(tmp_path, document({"key": "training.batch", "values": [4, 5]}))
    ran = invoke("sweep", path, "--out", tmp_path / "out", "--jobs", "1")
    assert ran.code == 0
    assert "1 point was refused, 1 of them at every plan and size; the column error says why." in ran.out
    path = write(tmp_path, document({"key": "training.batch", "values": [3, 5]}))
    ran = invoke("sweep", path, "--out", tmp_path / "out", "--jobs", "1")
    assert ran.code == 1 and "Every point was refused; the column error says why." in ran.out


def test_a_dry_run_counts_and_runs_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, document({"key": MICRO, "values": [1, 2, 4]}, filters=[f"{MICRO} < 4"]))
    ran = invoke("sweep", path, "--out", tmp_path / "out", "--dry-run", "--jobs", "2")
    assert (ran.code, ran.err) == (0, "") and not (tmp_path / "out").exists()
    assert ran.out.startswith("Tried: 2 points, of 3 before its filters\n")
    found = json.loads(invoke("sweep", path, "--dry-run", "--json").out)
    assert (found["points"], found["before_filters"]) == (2, 3) and found["cpu_s"] > 0
