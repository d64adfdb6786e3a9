"""Data sets: the rows of a study, the same bytes whoever made them; what is known is not simulated again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simfrontier.errors import InputError
from simfrontier.experiments import Digests, RowRunner, Setting
from simfrontier.scenario import load_scenario
from simfrontier.study import COLUMNS, STORE, run_study
from simfrontier.sweep import Counts, SweepOutcome, SweepStudy, best_rows, load_study, manifest_of, read_rows, run_sweep
from simfrontier.sweep.columns import RESULTS
from simfrontier.workers import Local
from tests.sweep.studies import ACCUM, HOOK, MICRO, SET, document, scenario, study, write

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


def test_columns_have_their_order_and_types(tmp_path: Path) -> None:
    axes = [*GRID, {"key": "engine.overlap", "values": [True, False]}, {"key": "run.devices", "values": [2, [2, 4]]}]
    axes.append({"key": "engine.granularity", "values": ["module", "layer"]})
    ran(study(tmp_path, *axes, filters=[f"{MICRO} == 1 and {HOOK} < 1e-5"]), tmp_path / "out")
    table = read_rows(tmp_path / "out")
    keys = [MICRO, HOOK, "engine.overlap", "run.devices", "engine.granularity"]
    axes_named = [f"axis:{key}" for key in keys]
    assert table.schema.names == ["point", "digest", "scenario", *axes_named, *RESULTS, "error"]
    kinds = [table.schema.field(f"axis:{key}").type for key in keys]
    assert kinds == [pa.int64(), pa.float64(), pa.bool_(), pa.string(), pa.string()]
    assert set(table.column("axis:run.devices").to_pylist()) == {"2", "[2, 4]"}
    assert table.schema.field("step_time_s").type == pa.float64() and table.schema.field("fits").type == pa.bool_()
    assert table.schema.field("peak_memory_bytes").type == pa.int64()


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


def test_points_that_a_study_no_longer_has_are_found_again(tmp_path: Path) -> None:
    wide, narrow = (study(tmp_path, {"key": MICRO, "values": values}, GRID[1]) for values in ([1, 2], [2]))
    ran(wide, tmp_path / "out")
    before = files(tmp_path / "out")
    with counted() as seen:
        assert ran(narrow, tmp_path / "out").counts.points == 2
        ran(narrow, tmp_path / "out")  # the others stay
        ran(wide, tmp_path / "out")
    assert (seen, files(tmp_path / "out")) == ([], before)


def test_equal_points_are_simulated_once_and_have_their_rows_each(tmp_path: Path) -> None:
    with counted() as seen:
        ran(study(tmp_path, {"key": MICRO, "values": [1, 1]}), tmp_path / "out")
    table = read_rows(tmp_path / "out")
    assert len(seen) == 1 and table.column("point").to_pylist() == [0, 0, 1, 1]
    assert len(set(table.column("digest").to_pylist())) == 1


def test_the_manifest_has_inputs_and_no_times_or_places(tmp_path: Path) -> None:
    ran(study(tmp_path, *GRID), tmp_path / "out")
    found = manifest_of(tmp_path / "out")
    assert (found["study"], found["points"], found["rows"], found["file"]) == ("tried", 4, 8, "study.toml")
    assert found["axes"] == [{"keys": [MICRO], "count": 2}, {"keys": [HOOK], "count": 2}]
    assert set(found["scenarios"]) == {"small"} and found["set"] == SET
    assert str(tmp_path) not in json.dumps(found)
    assert (tmp_path / "out" / "study.toml").read_bytes() == (tmp_path / "study.toml").read_bytes()


def test_the_best_row_of_each_plan_is_the_fastest(tmp_path: Path) -> None:
    ran(study(tmp_path, *GRID), tmp_path / "out")
    rows = read_rows(tmp_path / "out").to_pylist()
    for best in best_rows(tmp_path / "out"):
        rates = [row["tflops_per_device"] for row in rows if row["plan"] == best.plan]
        assert best.row["tflops_per_device"] == max(rates) and best.row["plan"] == best.plan
    assert [best.plan for best in best_rows(tmp_path / "out")] == ["ddp", "zero1"]


# ── what is refused ──


def test_a_point_that_is_refused_is_a_row_with_its_reason(tmp_path: Path) -> None:
    made = study(tmp_path, {"key": "training.batch", "values": [4, 5]}, {"key": "run.devices", "values": [2]})
    assert ran(made, tmp_path / "out").counts == Counts(points=2, rows=4, refused=1, refused_whole=1)
    rows = read_rows(tmp_path / "out").to_pylist()
    assert [row["error"] is None for row in rows] == [True, True, False, False]
    last = rows[-1]
    assert (last["plan"], last["devices"], last["fits"], last["step_time_s"]) == ("zero1", 2, None, None)
    assert last["error"].startswith("plans.zero1: at 2 devices: training.batch = 5 does not divide")


def test_what_values_are_only_together_is_a_row_without_a_plan(tmp_path: Path) -> None:
    made = study(tmp_path, {"key": "training.batch", "values": [4, 8]}, {"key": ACCUM, "values": [1, 2]})
    counts = ran(made, tmp_path / "out").counts
    assert counts == Counts(points=4, rows=6, refused=2, refused_whole=2)
    refused = [row for row in read_rows(tmp_path / "out").to_pylist() if row["error"]]
    assert {(row["scenario"], row["plan"], row["fits"]) for row in refused} == {("small", None, None)}
    assert "training.grad_accum: got 2 beside training.batch" in refused[0]["error"]


def test_one_plan_that_is_refused_leaves_the_others(tmp_path: Path) -> None:
    scenario(tmp_path, plans=("ddp", "megatron"))
    made = study(tmp_path, {"key": "plans.megatron.tensor", "values": [1, 3]})
    assert ran(made, tmp_path / "out").counts == Counts(points=2, rows=4, refused=1, refused_whole=0)
    rows = read_rows(tmp_path / "out").to_pylist()
    assert [row["error"] is None for row in rows] == [True, True, True, False]
    assert rows[2]["step_time_s"] > 0 and rows[2]["speedup"] == 1.0


def test_a_study_whose_points_are_all_refused_is_told(tmp_path: Path) -> None:
    made = study(tmp_path, {"key": "training.batch", "values": [3, 5]})
    counts = ran(made, tmp_path / "out").counts
    assert counts.refused_whole == counts.points == 2


# ── digests ──


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


def test_a_digest_changes_with_the_files_that_a_scenario_names(tmp_path: Path) -> None:
    scenario(tmp_path)
    machine = tmp_path / "mine.toml"
    own = {"base": "toy-cluster", "name": "mine", "title": "Mine"}
    write(tmp_path, document(set={**SET, "machine.name": "mine.toml"}))
    digests = set()
    for hook_s in (1e-6, 2e-6):
        machine.write_text(
            "\n".join(f'{key} = "{value}"' for key, value in own.items())
            + f'\n[host]\nhook_s = {{ value = {hook_s}, kind = "assumed", source = "x" }}\n',
            encoding="utf-8",
        )
        digests.add(_digest(load_study(tmp_path / "study.toml")))
    assert len(digests) == 2


def test_a_digest_changes_with_fidelity_and_version(tmp_path: Path) -> None:
    plain = _digest(study(tmp_path, *GRID))
    assert _digest(study(tmp_path, *GRID, fidelity="analytic")) != plain
    with mock.patch("simfrontier.experiments.digests.__version__", "9.9.9"):
        assert _digest(study(tmp_path, *GRID)) != plain


# ── folders that hold none ──


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("notes.txt", "mine", "no data set of a sweep, or one that is not whole yet"),
        ("manifest.json", '{"scenario": "toy"}', "holds results of another command"),
        ("manifest.json", "[]", "holds results of another command"),
        ("manifest.json", "{", "not JSON"),
        ("manifest.json", '{"kind": "sweep", "study": "tried"}', "cannot be read: "),
    ],
)
def test_a_folder_without_a_data_set_is_one_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_rows(tmp_path)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_damaged_part_is_one_line(tmp_path: Path) -> None:
    made = study(tmp_path, *GRID)
    ran(made, tmp_path / "out")
    part = tmp_path / "out" / "rows.parquet"
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(InputError) as caught:
        read_rows(tmp_path / "out")
    assert str(caught.value).startswith(f"{part}: cannot be read: ") and "\n" not in str(caught.value)
    ran(made, tmp_path / "out")
    assert read_rows(tmp_path / "out").num_rows == 8


def test_a_part_with_other_columns_is_one_line(tmp_path: Path) -> None:
    made = study(tmp_path, *GRID)
    ran(made, tmp_path / "out")
    part = tmp_path / "out" / "rows.parquet"
    pq.write_table(pq.read_table(part).drop_columns(["mfu"]), part)
    with pytest.raises(InputError, match='column "mfu" is not there as double; allowed: a data set of this version'):
        read_rows(tmp_path / "out")


def test_points_that_are_alike_stay_as_they_are(tmp_path: Path) -> None:
    """Neighbours with one digest are two points of as many rows, however often the command is given again."""
    made = study(tmp_path, {"key": MICRO, "values": [1, 1, 2]})
    out = tmp_path / "out"
    parts = []
    for _ in range(3):
        counts = run_sweep(made, out, Local(jobs=1)).counts
        assert (counts.points, counts.rows) == (3, 6)
        parts.append((out / "rows.parquet").read_bytes())
    assert parts[0] == parts[1] == parts[2]
