"""`simfrontier sweep`: what it prints and writes, and every line with which it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.answers.sweep.studies import ACCUM, HOOK, MICRO, document, write
from tests.invoke import invoke, refusal

LIMIT_S = 240.0  # machines are noisy


def said(folder: Path, *axes: Any, **more: Any) -> str:
    """What is said of a study that is refused, without the name of its file."""
    path = write(folder, document(*axes, **more))
    message = refusal("sweep", path, "--out", folder / "out", "--jobs", "1")
    assert not (folder / "out").exists()
    return message.removeprefix(f"{path}: ")


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


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        (
            {"key": "machine.overrides.host.hok_s", "values": [1e-6]},
            'host.hok_s" is not a number of this machine; did you mean "host.hook_s"?',
        ),
        ({"key": "plans.zero9.micro_batch", "values": [1]}, "plans.zero9.family: got "),
        ({"key": MICRO, "values": [1], "between": [1, 2]}, "got values and between of values, range"),
        ({"key": MICRO, "range": {"from": 4, "to": 1, "step": 1}}, "got 1, allowed: at least from, which is 4"),
        ({"key": MICRO, "between": [1, 2]}, "is sampled, and nothing says how often"),
        ({"keys": [MICRO, ACCUM], "rows": [[1, 2], [1]]}, "rows[1]: got a list of 1, allowed: of 2, as many as keys"),
        (
            {"key": HOOK, "samples": {"distribution": "normal", "mean": 1, "count": 2}},
            "samples.sd: missing; a normal distribution needs mean, sd",
        ),
    ],
)
def test_a_wrong_axis_is_one_line(tmp_path: Path, axis: dict[str, Any], message: str) -> None:
    found = said(tmp_path, axis)
    assert found.startswith("axes[0]") and message in found, found


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sampling": {"count": 3}}, "sampling: no axis is sampled; allowed: with axes that have between"),
        ({"scenarios": ["smal.toml"]}, "cannot read this scenario: No such file or directory"),
        ({"filters": ["training.micro_bach > 1"]}, 'filters[0]: got "training.micro_bach"; did you mean "training.'),
        ({"filters": ["1 > 0", "import os"]}, 'filters[1]: "import os" cannot be read'),
        ({"filters": [f"{MICRO} > 1"]}, "no points are left by its filters; allowed: a study with a point"),
    ],
)
def test_a_wrong_study_is_one_line(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    assert message in said(tmp_path, **more)
