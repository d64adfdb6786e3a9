"""`simfrontier calibrate --tables`: logs of nccl-tests, rows of a table and output of OSU become tables of calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.core.collectives import MeasuredPoint, load_calibration
from tests.inputs.measured.tables import nccl_log
from tests.invoke import Ran, invoke

TIMES = {1048576: 98.31, 4194304: 212.5, 16777216: 702.4}


def log(folder: Path, name: str = "all_gather_perf.log", factor: float = 1.0) -> Path:
    """A log of four ranks on two hosts."""
    path = folder / name
    path.write_text(nccl_log({size: micros * factor for size, micros in TIMES.items()}, per_host=2), encoding="utf-8")
    return path


def made(out: Path, *arguments: str | Path) -> Ran:
    done = invoke("calibrate", *arguments, "--out", out)
    assert (done.code, done.err) == (0, ""), done
    return done


def test_a_log_becomes_a_table(tmp_path: Path) -> None:
    done = made(tmp_path / "out.toml", log(tmp_path), "--when", "2024-10-03")
    calibration = load_calibration(tmp_path / "out.toml")
    (call,) = calibration.calls
    assert call.group == ("all_gather", 4, 2, 4)  # a package per rank, since nothing else is said
    # out of place, microseconds; the size column of an all-gather is the whole buffer
    assert call.points == tuple(MeasuredPoint(bytes=size, seconds=micros / 1e6) for size, micros in TIMES.items())
    assert call.residual is None
    assert (calibration.where, calibration.when) == ("node0, node1", "2024-10-03")
    assert calibration.how == "simfrontier calibrate all_gather_perf.log --out out.toml"
    line = next(line for line in done.out.splitlines() if line.strip().startswith("all_gather"))
    assert " ".join(line.split()) == "all_gather 4 2 4 3 1.049 MB to 16.78 MB 98.31 µs to 702.4 µs –"
    assert done.out.endswith(f"Written: {tmp_path}/out.toml; a scenario names it as library.calibration\n")


def test_two_passes_give_medians_and_a_residual(tmp_path: Path) -> None:
    files = (log(tmp_path), log(tmp_path, "second-all_gather_perf.log", 1.1))
    made(tmp_path / "out.toml", *files)
    (call,) = load_calibration(tmp_path / "out.toml").calls
    assert [point.seconds for point in call.points] == pytest.approx([1.05 * micros / 1e6 for micros in TIMES.values()])
    assert call.residual == pytest.approx(0.1 / 1.05)


CSV = """\
machine,collective,library,devices,bytes,time_s,source
frontier,all_gather,rccl,16,1048576,0.001,here
frontier,all_gather,rccl,16,2097152,0.002,here
frontier,all_gather,rccl,16,1048576,0.0012,here
frontier,reduce_scatter,rccl,4,1048576,0.0005,here
lumi-g,all_gather,rccl,8,1048576,0.0003,there
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
