"""`simfrontier calibrate --tables`: logs of nccl-tests, rows of a table and output of OSU become tables of calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.core.collectives import MeasuredPoint, load_calibration
from tests.invoke import Ran, invoke

HEAD = """\
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 16777216 step: 4(factor) warmup iters: 5 iters: 20 agg iters: 1 graph: 0
#
# Using devices
"""
RANK = "#  Rank {rank:2} Group {group:2} Pid  {pid} on {host} device {device:2} [0000:c1:00] AMD Instinct MI250X\n"
COLUMNS = """\
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
TAIL = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 13.6052\n#\n"
TIMES = {1048576: 98.31, 4194304: 212.5, 16777216: 702.4}


def ranks(hosts: int = 2, per_host: int = 2, groups: int = 1) -> str:
    """Lines that name the ranks; with several groups, each has its ranks on all hosts."""
    lines = []
    for rank in range(hosts * per_host):
        host, device = divmod(rank, per_host)
        lines.append(RANK.format(rank=rank, group=device % groups, pid=41000 + rank, host=f"node{host}", device=device))
    return "".join(lines)


def rows(times: dict[int, float], redop: str = "none", wrong: str = "0") -> str:
    return "".join(
        f"{size:12} {size // 16:13}     float  {redop:>6}      -1  {micros:7}   10.67    8.00  {wrong:>5}"
        f"  {micros * 2:7}   10.71    8.03      0\n"
        for size, micros in times.items()
    )


def log(folder: Path, name: str = "all_gather_perf.log", text: str = "") -> Path:
    path = folder / name
    path.write_text(text or HEAD + ranks() + COLUMNS + rows(TIMES) + TAIL, encoding="utf-8")
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
    second = {size: micros * 1.1 for size, micros in TIMES.items()}
    text = HEAD + ranks() + COLUMNS + rows(second) + TAIL
    files = (log(tmp_path), log(tmp_path, "second-all_gather_perf.log", text))
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
