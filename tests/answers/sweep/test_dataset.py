"""Data sets: the rows of a study, the same bytes whoever made them; what is known is not simulated again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from simfrontier.answers.experiments import RowRunner
from simfrontier.answers.study import COLUMNS, STORE, Digests, Setting, run_study
from simfrontier.answers.sweep import Counts, SweepOutcome, SweepStudy, best_rows, load_study, read_rows, run_sweep
from simfrontier.base.workers import Local
from simfrontier.inputs.scenario import load_scenario
from tests.answers.sweep.studies import ACCUM, HOOK, MICRO, SET, document, study, write
from tests.invoke import invoke

Files = dict[str, bytes]
GRID = ({"key": MICRO, "values": [1, 2]}, {"key": HOOK, "values": [1e-6, 1e-5]})


def files(folder: Path) -> Files:
    """Every file of a folder, by its name, but for the store, in which rows stand in the order in which they came."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != STORE}


@contextmanager
def counted() -> Iterator[list[Setting]]:
    """The settings that are simulated meanwhile."""
    seen: list[Setting] = []
    original = RowRunner.rows_of

    def rows_of(self: RowRunner, setting: Setting) -> Any:
        seen.append(setting)
        return original(self, setting)

    with mock.patch.object(RowRunner, "rows_of", rows_of):
        yield seen


def ran(made: SweepStudy, folder: Path, jobs: int = 1) -> SweepOutcome:
    return run_sweep(made, folder, Local(jobs=jobs))


def test_rows_are_those_of_run_with_the_same_settings(tmp_path: Path) -> None:
    ran(study(tmp_path, *GRID), tmp_path / "out")
    table = read_rows(tmp_path / "out")
    rows = [row for row in table.to_pylist() if row["point"] == 3]
    with_settings = load_scenario(tmp_path / "small.toml", {**SET, MICRO: 2, HOOK: 1e-5})
    expected = [outcome.row for outcome in run_study(with_settings).outcomes]
    assert [{name: row[name] for name in COLUMNS} for row in rows] == [
        {name: None if row[name] == "" else row[name] for name in COLUMNS} for row in expected
    ]
    assert {(row[f"axis:{MICRO}"], row[f"axis:{HOOK}"], row["error"]) for row in rows} == {(2, 1e-5, None)}


def test_the_bytes_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    made = study(tmp_path, *GRID, {"key": ACCUM, "values": [1, 2]})
    for jobs in (1, 2, 3):
        assert ran(made, tmp_path / f"by{jobs}", jobs).counts == Counts(points=8, rows=16, refused=0, refused_whole=0)
    assert files(tmp_path / "by1") == files(tmp_path / "by2") == files(tmp_path / "by3")
    assert set(files(tmp_path / "by1")) == {"manifest.json", "rows.parquet", "study.toml"}


def test_a_second_run_simulates_nothing_and_leaves_the_same_bytes(tmp_path: Path) -> None:
    made = study(tmp_path, *GRID)
    ran(made, tmp_path / "out")
    before = files(tmp_path / "out")
    with counted() as seen:
        assert ran(made, tmp_path / "out").known == 4
    assert (seen, files(tmp_path / "out")) == ([], before)


def test_a_wider_study_simulates_what_is_new_and_has_the_bytes_of_one_run(tmp_path: Path) -> None:
    ran(study(tmp_path, {"key": MICRO, "values": [2]}, GRID[1]), tmp_path / "out")
    wide = study(tmp_path, {"key": MICRO, "values": [1, 2, 4]}, GRID[1])
    with counted() as seen:
        assert ran(wide, tmp_path / "out").known == 2
    assert [setting.changes[MICRO] for setting in seen] == [1, 1, 4, 4]
    ran(wide, tmp_path / "whole")
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_the_best_row_of_each_plan_is_the_fastest(tmp_path: Path) -> None:
    ran(study(tmp_path, *GRID), tmp_path / "out")
    rows = read_rows(tmp_path / "out").to_pylist()
    for best in best_rows(tmp_path / "out"):
        rates = [row["tflops_per_device"] for row in rows if row["plan"] == best["plan"]]
        assert best["tflops_per_device"] == max(rates)
    assert [best["plan"] for best in best_rows(tmp_path / "out")] == ["ddp", "zero1"]


def test_a_point_that_is_refused_is_a_row_with_its_reason(tmp_path: Path) -> None:
    made = study(tmp_path, {"key": "training.batch", "values": [4, 5]}, {"key": "run.devices", "values": [2]})
    assert ran(made, tmp_path / "out").counts == Counts(points=2, rows=4, refused=1, refused_whole=1)
    rows = read_rows(tmp_path / "out").to_pylist()
    assert [row["error"] is None for row in rows] == [True, True, False, False]
    last = rows[-1]
    assert (last["plan"], last["devices"], last["fits"], last["step_time_s"]) == ("zero1", 2, None, None)
    assert last["error"].startswith("plans.zero1: at 2 devices: training.batch = 5 does not divide")


def _digest(made: SweepStudy) -> str:
    return Digests().of(made.setting_of(next(made.points())))


def test_a_digest_is_of_the_content_and_not_of_the_place(tmp_path: Path) -> None:
    digests = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        digests.add(_digest(study(tmp_path / name, *GRID)))
    assert len(digests) == 1
    text = (tmp_path / "a" / "small.toml").read_text(encoding="utf-8")
    (tmp_path / "a" / "small.toml").write_text("# a comment\n" + text, encoding="utf-8")
    assert _digest(load_study(tmp_path / "a" / "study.toml")) in digests
    (tmp_path / "a" / "small.toml").write_text(text.replace("= 128", "= 129"), encoding="utf-8")
    assert _digest(load_study(tmp_path / "a" / "study.toml")) not in digests


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
