"""`validate`: exit codes, refusals, and what it says of the shipped tables and of a user's own."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simfrontier.accuracy import validation
from simfrontier.accuracy.bounds import ErrorBound, load_bounds
from simfrontier.measured import load_table, load_tables
from simfrontier.measured.csv_calls import COLUMNS
from simfrontier.measured.rows import CallRow
from tests.invoke import Ran, invoke, refusal
from tests.measured.tables import nccl_log, shipped as shipped_rows, write_calls


@pytest.fixture(scope="module")
def shipped() -> dict[str, Any]:
    """What `validate --json` says of the shipped tables by the shipped parameters."""
    ran = invoke("validate", "--no-cross", "--json")
    assert ran.code in (0, 1) and ran.err == ""
    document: dict[str, Any] = json.loads(ran.out)
    return document


def calls(name: str = "rccl_frontier") -> list[CallRow]:
    return shipped_rows(name, CallRow)


def words(ran: Ran) -> str:
    return " ".join(ran.out.split())


# ── the shipped tables ──


def test_the_stated_bounds_of_the_shipped_tables_hold(shipped: dict[str, Any]) -> None:
    missed = [bound for bound in shipped["bounds"] if not bound["holds"]]
    assert missed == [] and shipped["holds"] is True
    assert len(shipped["bounds"]) == len(load_bounds())


def test_every_measured_row_is_there_with_its_prediction(shipped: dict[str, Any]) -> None:
    rows = shipped["rows"]
    assert Counter(row["table"] for row in rows) == {table.name: len(table.rows) for table in load_tables()}
    asked = {*COLUMNS, "predicted_s", "low_s", "high_s", "error", "use", "why", "harness_s"}
    for row in rows:
        if "collective" in row:
            assert asked <= set(row)
        if row["predicted_s"] is None:
            assert (row["error"], row["low_s"], row["high_s"]) == (None, None, None)
            assert row["use"] in ("no model", "pathology") and row["why"]
        else:
            assert row["error"] == pytest.approx(row["predicted_s"] / row["time_s"] - 1)
            assert row["low_s"] is None or row["low_s"] < row["predicted_s"] < row["high_s"]
            assert 0 <= row["harness_s"] < row["predicted_s"]


def test_averages_are_those_of_the_rows(shipped: dict[str, Any]) -> None:
    assert any(message["errors"] is not None for message in shipped["tables"].values())
    for name, message in shipped["tables"].items():
        errors = [
            abs(row["error"])
            for row in shipped["rows"]
            if row["table"] == name and row["use"] in ("fitted", "held") and row["error"] is not None
        ]
        if message["errors"] is None:
            assert errors == []
        else:
            assert message["errors"]["count"] == len(errors)
            assert message["errors"]["mean_abs"] == pytest.approx(sum(errors) / len(errors))
            assert abs(message["errors"]["worst"]["error"]) == pytest.approx(max(errors))


def test_the_known_pathologies_of_frontier_are_shown_and_not_averaged(shipped: dict[str, Any]) -> None:
    """1 MiB on 128 and 512 GCDs (all-gather), 256 and 1,024 (reduce-scatter)."""
    odd = [row for row in shipped["rows"] if row["table"] == "rccl_frontier" and row["use"] == "pathology"]
    assert [(row["bytes"], row["devices"]) for row in odd] == [(1 << 20, n) for n in (128, 512, 256, 1024)]
    assert all(row["error"] < -0.5 and "1 MiB" in row["why"] for row in odd)
    assert shipped["tables"]["rccl_frontier"]["errors"]["count"] == len(calls()) - 4


def test_a_missed_bound_ends_with_1_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    tight = ErrorBound(table="rccl_frontier", series="everything", mean_abs=1e-6)
    monkeypatch.setattr(validation, "load_bounds", lambda: (tight,))
    ran = invoke("validate", "--no-cross")
    assert (ran.code, ran.err) == (1, "")
    assert "Bound missed: rccl_frontier, everything:" in words(ran) and "0.0 % allowed" in words(ran)
    assert json.loads(invoke("validate", "--no-cross", "--json").out)["holds"] is False


def test_the_console_says_tables_bounds_and_what_is_left_out(shipped: dict[str, Any]) -> None:
    ran = invoke("validate", "--no-cross")
    assert max(map(len, ran.out.splitlines())) <= 100 and "\u00a0" not in ran.out
    for message in shipped["said"]:
        assert " ".join(message.split()) in words(ran)
    for name in shipped["tables"]:
        assert name in ran.out
    assert "Shown and not averaged: " in words(ran) and "published rates of training" in words(ran)


def test_the_same_tables_give_the_same_bytes(tmp_path: Path) -> None:
    pages = []
    for name in ("one", "two"):
        ran = invoke("validate", "--no-cross", "--out", tmp_path / name)
        assert f"Written: {tmp_path / name / 'index.html'}" in ran.out
        pages.append((tmp_path / name / "index.html").read_bytes())
    assert pages[0] == pages[1]
    assert invoke("validate", "--no-cross", "--json") == invoke("validate", "--no-cross", "--json")


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    message = refusal("validate", "--out", tmp_path / "file" / "out")
    assert message.startswith(f"--out {tmp_path / 'file' / 'out'}: cannot be written: ")


def test_fitted_rows_are_predicted_by_fits_that_left_them_out(
    shipped: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One number of devices stands for all: each fit costs a second. What it was not shown it predicts otherwise."""
    from simfrontier.accuracy.fitting import cross

    rows = [
        row for row in calls() if row.devices in (32, 128) and load_table("rccl_frontier").pathology_of(row) is None
    ]
    monkeypatch.setattr(cross, "FITS", {"rccl": {}})
    monkeypatch.setattr(cross, "fitted_rows", lambda name: tuple(rows))
    crossed = json.loads(invoke("validate", "--json").out)
    by_place = {row["place"]: row for row in shipped["rows"]}
    mine = [row for row in crossed["rows"] if row["use"] == "left out"]
    assert [row["place"] for row in mine] == [str(row.place) for row in rows]
    assert all(row["predicted_s"] != by_place[row["place"]]["predicted_s"] for row in mine)
    assert crossed["tables"]["rccl_frontier"]["by_use"]["left out"]["count"] == len(rows)
    [bound] = [bound for bound in crossed["bounds"] if bound["table"] == "rccl_frontier"]
    assert bound["rows"] == ["left out"]  # the fitted rows of the same series do not judge it
    large = [row for row in mine if row["bytes"] >= 4 << 20]
    assert bound["errors"]["count"] == len(large)
    assert crossed["overall"]["unseen"]["count"] == len(mine) + sum(row["use"] == "held" for row in crossed["rows"])


# ── a user's own ──


def test_a_users_rows_are_held_and_never_fitted_to(tmp_path: Path) -> None:
    """10 % slower than the shipped ones: other measurements, and no bound to leave."""
    rows = [replace(row, seconds=1.1 * row.seconds) for row in calls() if row.devices == 32]
    ran = invoke("validate", "--data", write_calls(tmp_path / "mine.csv", rows), "--json")
    document = json.loads(ran.out)
    assert (ran.code, ran.err) == (0, "") and document["bounds"] == []
    assert [row["table"] for row in document["rows"]] == ["mine.csv"] * len(rows)
    assert {row["use"] for row in document["rows"]} == {"held"}
    assert [row["time_s"] for row in document["rows"]] == [row.seconds for row in rows]


def test_predictions_do_not_depend_on_whose_file_a_row_is_in(shipped: dict[str, Any], tmp_path: Path) -> None:
    document = json.loads(invoke("validate", "--data", write_calls(tmp_path / "mine.csv", calls()), "--json").out)
    same = ("machine", "bytes", "devices", "predicted_s", "low_s", "high_s", "error", "use", "why", "harness_s")
    mine, its = document["rows"], [row for row in shipped["rows"] if row["table"] == "rccl_frontier"]
    assert [[row[name] for name in same] for row in mine] == [[row[name] for name in same] for row in its]


def test_however_far_off_a_users_rows_are_no_bound_is_missed(tmp_path: Path) -> None:
    rows = [replace(row, seconds=3 * row.seconds) for row in calls()]
    ran = invoke("validate", "--data", write_calls(tmp_path / "slow.csv", rows), "--out", tmp_path / "out")
    assert (ran.code, ran.err) == (0, "") and "slow.csv" in ran.out and "ound missed" not in ran.out
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert 'id="fig-agreement"' in page and 'id="bounds"' not in page and 'id="sources"' not in page


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    paths = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        paths.append(write_calls(tmp_path / folder / "mine.csv", calls()[:3]))
    document = json.loads(invoke("validate", "--data", paths[0], "--data", paths[1], "--json").out)
    assert list(document["tables"]) == [str(path) for path in paths]


def test_a_file_of_which_nothing_can_be_predicted_is_refused(tmp_path: Path) -> None:
    rows = [replace(row, machine="frontire") for row in calls()[:5]]
    path = write_calls(tmp_path / "mine.csv", rows)
    assert refusal("validate", "--data", path) == (
        f"{path}: none of its 5 rows can be predicted: no model of machine 'frontire'; "
        'did you mean "frontier"? (5 rows, the first in line 2)'
    )


def test_a_row_that_cannot_be_predicted_is_said_and_the_others_held(tmp_path: Path) -> None:
    rows = [*calls()[:3], replace(calls()[3], library="other")]
    ran = invoke("validate", "--data", write_calls(tmp_path / "mine.csv", rows))
    assert ran.code == 0 and "Not predicted: 1 row: no model of library 'other' (1, the first in line 5)." in words(ran)


def test_a_bad_file_is_one_line(tmp_path: Path) -> None:
    path = write_calls(tmp_path / "mine.csv", [replace(row, seconds=-1.0) for row in calls()[:2]])
    message = refusal("validate", "--data", path)
    assert message.startswith(f"{path} line 2: time_s: ") and "-1.0" in message
    assert refusal("validate", "--data", tmp_path / "none.csv").startswith(f"{tmp_path / 'none.csv'}: ")


def test_a_users_file_has_no_fit_to_be_left_out_of(tmp_path: Path) -> None:
    for option in ("--cross", "--no-cross"):
        assert refusal("validate", option, "--data", write_calls(tmp_path / "mine.csv", calls())) == (
            f"{option}: got --data too; allowed: without it, for the tables that the models were fitted to"
        )


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--machine", "frontier"),
        ("--library", "rccl"),
        ("--devices", "8"),
        ("--nodes", "2"),
        ("--packages", "4"),
        ("--harness", "none"),
    ],
)
def test_what_is_told_beside_a_file_means_nothing_without_one(option: str, value: str) -> None:
    got = value if value.isdecimal() else repr(value)
    assert refusal("validate", option, value) == (
        f"{option}: got {got} without --data; allowed: only beside a file of your own"
    )


def test_output_of_osu_is_held_with_what_is_told_beside_it(tmp_path: Path) -> None:
    """OSU's all-reduce: 64 KiB and 1 MiB of vector."""
    path = tmp_path / "osu.txt"
    path.write_text(
        "# OSU MPI-ROCM Allreduce Latency Test v7.5\n# Datatype: MPI_INT.\n# Size       Avg Latency(us)\n"
        "65536                  60.00\n1048576               110.00\n"
    )
    given = ("--machine", "lumi-g", "--library", "rccl", "--devices", "8")
    rows = json.loads(invoke("validate", "--data", path, *given, "--json").out)["rows"]
    assert [(row["machine"], row["collective"], row["devices"], row["bytes"], row["time_s"]) for row in rows] == [
        ("lumi-g", "all_reduce", 8, 65536, pytest.approx(60e-6)),
        ("lumi-g", "all_reduce", 8, 1048576, pytest.approx(110e-6)),
    ]
    assert all(row["predicted_s"] > 0 for row in rows)


# ── programs whose own time is in a user's rows, units, and what their rows say themselves ──


def of_32(source: str, factor: float = 1.0, **changed: Any) -> list[CallRow]:
    """Shipped rows of 32 GCDs as somebody else's."""
    rows = [row for row in calls() if row.devices == 32]
    return [replace(row, source=source, seconds=factor * row.seconds, **changed) for row in rows]


def rows_of(*arguments: str | Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(invoke("validate", "--json", "--data", *arguments).out)["rows"]
    return rows


def test_a_named_programs_time_is_added_whatever_the_source(tmp_path: Path) -> None:
    """Both programs of the shipped table named: as if the source were known."""
    known = rows_of(write_calls(tmp_path / "known.csv", of_32(calls()[0].source)))
    mine = write_calls(tmp_path / "mine.csv", of_32("me"))
    assert all(row["harness_s"] == 0 for row in rows_of(mine))
    given = rows_of(mine, "--harness", "frontier_call,frontier_list")
    assert [row["harness_s"] for row in given] == [row["harness_s"] for row in known]
    assert {row["collective"] for row in given if row["harness_s"] > 1e-4} == {"all_gather"}  # the copy of a list
    assert all(row["harness_s"] == 0 for row in rows_of(tmp_path / "known.csv", "--harness", "none"))


def test_rows_of_unknown_source_are_said_to_have_no_programs_time_added(tmp_path: Path) -> None:
    mine = write_calls(tmp_path / "mine.csv", of_32("me"))
    out = tmp_path / "out"
    ran = invoke("validate", "--data", mine, "--out", out)
    message = f"No program’s own time is added to {len(of_32('me'))} rows: the source is not known."
    assert message in words(ran) and "frontier_list (PyTorch all-gather into a list" in words(ran)
    assert message in (out / "index.html").read_text(encoding="utf-8")
    document = json.loads(invoke("validate", "--data", mine, "--json").out)
    assert len(document["notes"]) == 1 and document["notes"][0] in document["said"]
    for options in (("--harness", "none"), ("--harness", "frontier_call")):
        assert "own time is added" not in words(invoke("validate", "--data", mine, *options))
    assert "own time is added" not in words(invoke("validate", "--data", write_calls(tmp_path / "known.csv", calls())))


def test_a_program_of_no_such_name_is_refused_with_the_nearest(tmp_path: Path) -> None:
    mine = write_calls(tmp_path / "mine.csv", of_32("me"))
    assert refusal("validate", "--data", mine, "--harness", "frontier_cal") == (
        "--harness: got 'frontier_cal'; did you mean \"frontier_call\"?"
    )


def test_a_program_that_can_have_measured_no_row_is_refused(tmp_path: Path) -> None:
    mine = write_calls(tmp_path / "mine.csv", of_32("me"))
    assert refusal("validate", "--data", mine, "--harness", "frontier_call,perlmutter_list") == (
        "--harness: got 'perlmutter_list', which measured all_gather by nccl on perlmutter: no row is of these; "
        "allowed: frontier_call, frontier_list, none"
    )


@pytest.mark.parametrize(("factor", "looks"), [(1e3, "like milliseconds"), (1e-3, "a thousand times too short")])
def test_times_that_look_like_another_unit_are_said_to(tmp_path: Path, factor: float, looks: str) -> None:
    ran = invoke("validate", "--data", write_calls(tmp_path / "mine.csv", of_32("me", factor)))
    assert ran.code == 0
    assert f"which looks {looks}: are times in seconds?" in words(ran)
    assert "are times in seconds?" not in words(
        invoke("validate", "--data", write_calls(tmp_path / "b.csv", of_32("me")))
    )


def test_what_the_rows_of_a_table_say_cannot_be_told_beside_it(tmp_path: Path) -> None:
    mine = write_calls(tmp_path / "mine.csv", of_32("me"))
    assert refusal("validate", "--data", mine, "--machine", "perlmutter") == (
        f"--machine: got 'perlmutter' beside {mine}, a table whose rows say it; allowed: beside "
        "output of nccl-tests or OSU"
    )


def test_a_users_row_is_a_pathology_only_where_its_time_shows_it(tmp_path: Path) -> None:
    """1 MiB on 128 GCDs: 5 ms is the known fault (10 times the prediction); a time as predicted is none; and 1 MiB on
    100,000 devices is beyond the machine, whatever the fault."""
    [odd] = [row for row in calls() if (row.devices, row.num_bytes) == (128, 1 << 20)]
    [there] = [
        row
        for row in rows_of(write_calls(tmp_path / "a.csv", calls()))
        if (row["devices"], row["bytes"]) == (128, 1 << 20)
    ]
    good = replace(odd, seconds=there["predicted_s"])
    far = replace(odd, devices=100_000, source="me")
    uses = [row["use"] for row in rows_of(write_calls(tmp_path / "b.csv", [odd, good, far]))]
    assert uses == ["pathology", "held", "no model"]


def test_a_log_of_nccl_tests_has_as_many_packages_as_the_machine(tmp_path: Path) -> None:
    """16 ranks on 2 nodes of Frontier fill 8 packages, not 16."""
    path = tmp_path / "all_gather_perf.log"
    path.write_text(nccl_log({1048576: 400.0, 2097152: 500.0}, 2, 8))
    given = ("--machine", "frontier", "--library", "rccl")
    assert [(row["packages"], row["use"]) for row in rows_of(path, *given)] == [(8, "held"), (8, "held")]
    message = refusal("validate", "--data", path, *given, "--packages", "16")
    assert "16 ranks on 2 nodes and 16 packages, where frontier has them on 2 and 8 (--packages)" in message
    invoke("calibrate", path, "--out", tmp_path / "cal.toml", *given)
    assert "packages = 8\n" in (tmp_path / "cal.toml").read_text()
