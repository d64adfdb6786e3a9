"""`simfrontier calibrate --tables` of other measured times than logs, known faults among them, and what a file is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simfrontier.collectives import MeasuredPoint, load_calibration
from tests.invoke import invoke, refusal
from tests.test_calibrate import log, made

CSV = """\
machine,collective,library,devices,bytes,time_s,source
frontier,all_gather,rccl,16,1048576,0.001,here
frontier,all_gather,rccl,16,2097152,0.002,here
frontier,all_gather,rccl,16,1048576,0.0012,here
frontier,reduce_scatter,rccl,4,1048576,0.0005,here
lumi-g,all_gather,rccl,8,1048576,0.0003,there
"""
OSU = """\
# OSU MPI-ROCM Allgather Latency Test v7.5
# Size       Avg Latency(us)
1                      36.49
4096                   40.00
"""


def test_rows_of_a_table_become_tables_of_calls(tmp_path: Path) -> None:
    """16 devices fill 2 nodes of Frontier and their 8 packages; a point measured twice gets the median."""
    (tmp_path / "my.csv").write_text(CSV, encoding="utf-8")
    made(tmp_path / "out.toml", tmp_path / "my.csv", "--tables", "--machine", "frontier", "--when", "today")
    calibration = load_calibration(tmp_path / "out.toml")
    first, second = calibration.calls
    assert (first.group, second.group) == (("all_gather", 16, 2, 8), ("reduce_scatter", 4, 1, 2))
    assert [point.bytes for point in first.points] == [1048576, 2097152]
    assert [point.seconds for point in first.points] == pytest.approx([0.0011, 0.002])
    assert calibration.how == "simfrontier calibrate my.csv --tables --machine frontier --out out.toml"
    assert (calibration.where, calibration.title) == ("frontier", "rccl calls on frontier")


def test_osu_output_becomes_tables_of_calls(tmp_path: Path) -> None:
    path = log(tmp_path, "osu.txt", OSU)
    made(tmp_path / "out.toml", path, "--machine", "lumi-g", "--library", "rccl", "--devices", "8")
    (call,) = load_calibration(tmp_path / "out.toml").calls
    assert call.group == ("all_gather", 8, 1, 4)
    assert call.points == (
        MeasuredPoint(bytes=8, seconds=36.49 / 1e6),
        MeasuredPoint(bytes=32768, seconds=40.0 / 1e6),
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "{file}: the rows are of several machines: frontier (4 rows), lumi-g (1 row); allowed: one of them, "),
        (
            ("--machine", "frontier", "--page", "p.html"),
            "--page: got 'p.html' for tables of times; allowed: only with a ",
        ),
        (
            ("--machine", "frontier", "--min-bytes", "1MiB"),
            "--min-bytes: got '1MiB' for tables of times; allowed: only ",
        ),
        (
            ("--machine", "frontier,lumi-g"),
            "--machine: got 'frontier,lumi-g' for tables of times; allowed: one machine",
        ),
        (("--machine", "lumig"), 'machine "lumig" is not in the catalog; did you mean "lumi-g"? (a file of your own: '),
        (("--machine", "perlmutter"), "{file}: --machine: no rows of machine 'perlmutter', allowed: frontier, lumi-g"),
    ],
)
def test_rows_that_do_not_become_tables_are_one_line(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    file = tmp_path / "my.csv"
    file.write_text(CSV, encoding="utf-8")
    got = refusal("calibrate", file, "--tables", *options, "--out", tmp_path / "out.toml")
    assert got.startswith(message.format(file=file))
    assert list(tmp_path.iterdir()) == [file]


def test_calls_of_which_a_schedule_has_none_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "my.csv"
    file.write_text(CSV.replace("reduce_scatter", "broadcast"), encoding="utf-8")
    done = made(tmp_path / "out.toml", file, "--tables", "--machine", "frontier", "--json")
    assert [call["kind"] for call in json.loads(done.out)["calls"]] == ["all_gather"]
    assert json.loads(done.out)["said"] == ["Left out: 1 row: broadcast, which no schedule has."]
    file.write_text(CSV.replace("reduce_scatter", "broadcast").replace("all_gather", "broadcast"), encoding="utf-8")
    got = refusal("calibrate", file, "--tables", "--machine", "frontier", "--out", tmp_path / "none.toml")
    assert got.startswith(f"{file}: broadcast: no schedule has one; allowed: all_gather, ")


FAULTY = """\
machine,collective,library,devices,bytes,time_s,source
frontier,all_gather,rccl,128,1048576,0.005,axonn-ai/sc2025-pccl-reproducer@5a6353f
frontier,all_gather,rccl,128,2097152,0.001,axonn-ai/sc2025-pccl-reproducer@5a6353f
frontier,all_gather,rccl,128,4194304,0.002,me
"""


def test_known_pathologies_stay_out_of_tables_and_programs_are_said(tmp_path: Path) -> None:
    """1 MiB on 128 GCDs of Frontier is a known fault; the second row's program adds time of its own."""
    (tmp_path / "my.csv").write_text(FAULTY, encoding="utf-8")
    message = made(tmp_path / "out.toml", tmp_path / "my.csv", "--tables").out
    (call,) = load_calibration(tmp_path / "out.toml").calls
    assert [point.bytes for point in call.points] == [2097152, 4194304]
    assert "– Left out: 1 row: 1 MiB on Frontier's RCCL is anomalous" in message
    assert "– Warning: the times hold the measuring program’s own work (host work of a PyTorch call" in message
    document = json.loads(made(tmp_path / "out.toml", tmp_path / "my.csv", "--tables", "--json").out)
    assert len(document["said"]) == 2


def test_a_table_of_pathologies_alone_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "my.csv"
    file.write_text("".join(FAULTY.splitlines(True)[:2]) + "frontier,all_gather,rccl,512,1048576,0.03,me\n")
    message = refusal("calibrate", file, "--tables", "--out", tmp_path / "out.toml")
    assert message.startswith(f"{file}: all 2 rows are of known pathologies: 1 MiB on Frontier")


def test_a_row_that_a_known_fault_covers_stays_where_its_time_is_as_predicted(tmp_path: Path) -> None:
    """1.2 ms for 1 MiB on 128 GCDs of Frontier, where the fault takes 9 ms; `validate` holds the row too."""
    file = tmp_path / "my.csv"
    good = "frontier,all_gather,rccl,128,1048576,0.0012,me\n"
    file.write_text(FAULTY.splitlines(True)[0] + good + good.replace("1048576,0.0012", "2097152,0.0013"))
    message = made(tmp_path / "out.toml", file, "--tables").out
    assert len(load_calibration(tmp_path / "out.toml").calls[0].points) == 2 and "Left out" not in message
    assert [row["use"] for row in json.loads(invoke("validate", "--data", file, "--json").out)["rows"]] == ["held"] * 2


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "my.csv").write_text(CSV, encoding="utf-8")
    both = (tmp_path / "my.csv", tmp_path / "my.csv", "--tables", "--machine", "lumi-g", "--when", "today")
    made(tmp_path / "out.toml", *both)
    calibration = load_calibration(tmp_path / "out.toml")
    assert calibration.calls[0].residual is None  # of a point measured once
    assert calibration.how == "simfrontier calibrate my.csv --tables --machine lumi-g --out out.toml"


# ── what a file is, is decided by what stands in it, as by `validate` ──


def test_a_calibration_of_another_suffix_is_known_by_what_stands_in_it(tmp_path: Path) -> None:
    made(tmp_path / "cal.toml", log(tmp_path))
    (tmp_path / "cal.toml").rename(tmp_path / "cal.txt")
    made(tmp_path / "again.toml", tmp_path / "cal.txt")
    assert load_calibration(tmp_path / "again.toml").calls == load_calibration(tmp_path / "cal.txt").calls


def test_osu_output_is_known_without_a_blank_in_its_header(tmp_path: Path) -> None:
    path = log(tmp_path, "osu.txt", OSU.replace("# OSU", "#OSU"))
    made(tmp_path / "out.toml", path, "--machine", "lumi-g", "--library", "rccl", "--devices", "8")
    assert len(load_calibration(tmp_path / "out.toml").calls[0].points) == 2


def test_a_table_of_another_suffix_with_wrong_columns_is_told_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "my.txt"
    file.write_text("machin,colective,librry,device,byte,time,sourc\n" + "".join(CSV.splitlines(True)[1:]))
    for verb in (("validate", "--data", file), ("calibrate", file, "--out", tmp_path / "out.toml")):
        message = refusal(*verb)
        assert message.startswith(f"{file} line 1: missing columns: ") and message.endswith('did you mean "machine"?')


@pytest.mark.parametrize("machine", [",", " ", ""])
def test_no_machine_named_is_not_the_option_left_out(tmp_path: Path, machine: str) -> None:
    (tmp_path / "my.csv").write_text(CSV, encoding="utf-8")
    assert refusal("calibrate", tmp_path / "my.csv", "--machine", machine, "--out", tmp_path / "out.toml") == (
        f"--machine: got {machine!r}; allowed: names separated by commas, e.g. frontier,lumi-g"
    )
