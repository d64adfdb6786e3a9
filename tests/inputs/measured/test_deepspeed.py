"""Logs of DeepSpeed's communication: lines, summaries, the time that a rate says better, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.inputs.measured import Reading, Setup, readings
from simfrontier.inputs.measured.deepspeed import Printed, PrintedSize

SETUP = Setup(machine="frontier", library="rccl", devices=16, nodes=2)
# The lines of DeepSpeed's own tutorial (docs/_tutorials/communication-logging.md), of 16 ranks.
STARTS = "[2022-06-26 01:39:55,722] [INFO] [logging.py:69:log_dist] [Rank 0] rank=0 | "
TUTORIAL = (
    f"{STARTS}comm op: reduce_scatter_tensor | time (ms): 9.46 | msg size: 678.86 MB | algbw (Gbps): 1204.52  | "
    f"busbw (Gbps): 1129.23\n{STARTS}comm op: all_gather_into_tensor | time (ms): 0.11 | msg size: 6.0 MB | "
    f"algbw (Gbps): 954.41  | busbw (Gbps): 894.76\n{STARTS}comm op: all_gather_into_tensor | time (ms): 0.08 | "
    "msg size: 6.0 MB | algbw (Gbps): 1293.47  | busbw (Gbps): 1212.63\n"
)
HEAD = "".join(
    f"{head: <20}"
    for head in (
        *("Comm. Op", "Message Size", "Count", "Total Latency(ms)", "Avg Latency(ms)", "tput_avg (Gbps)"),
        "busbw_avg (Gbps)",
    )
)
STRAGGLERS = (
    "Comm. Op            Message Size        Count               Total comm lat(ms)  "
    "Total straggler(ms) Avg comm lat(ms)    Avg straggler(ms)   "
)


def call(
    op: str = "all_reduce", time: str = "1.00", size: str = "1.0 MB", rate: str = "16.78", bus: str = "15.73"
) -> str:
    return f"comm op: {op} | time (ms): {time} | msg size: {size} | algbw (Gbps): {rate} | busbw (Gbps): {bus}\n"


def log(folder: Path, text: str) -> Path:
    path = folder / "train.log"
    path.write_text(text)
    return path


def read(path: Path, setup: Setup = SETUP) -> Reading:
    (reading,) = readings([path], setup)
    return reading


def test_lines_of_the_tutorial_are_read(tmp_path: Path) -> None:
    gather, reduce = read(log(tmp_path, TUTORIAL)).rows
    # A part of 6 MiB from each of 16 ranks: 96 MiB. That version counted every message twice: 2 x 6,291,456 x 8 bits at
    # 954.41 and 1293.47 Gbit/s take 0.105471 and 0.077825 ms, which it printed as 0.11 and 0.08.
    assert (gather.num_bytes, gather.seconds) == (96 << 20, pytest.approx((0.105471 + 0.077825) / 2e3, rel=1e-4))
    # 678.86 MiB are 711,836,303 bytes: 2 x that x 8 / 1204.52 Gbit/s is 9.4555 ms
    assert (reduce.num_bytes, reduce.seconds) == (711836303, pytest.approx(9.4555e-3, rel=1e-4))
    assert (gather.devices, gather.nodes, gather.library) == (16, 2, "rccl")


def test_the_rate_says_a_short_time_better_than_two_decimals() -> None:
    # An all-reduce of 1 MiB in 0.1234 ms: 2 x 1,048,576 x 8 / 0.1234e6 = 135.96 Gbit/s. Of 0.12 ms and 135.96 Gbit/s:
    # 16.777216 / 135.96 = 0.1233982 ms, off by at most 0.5 % (of the size 1.0 MB) + 0.004 %, not by 4 %.
    size = PrintedSize(num_bytes=1 << 20, off=0.005)
    printed = Printed(kind="all_reduce", devices=8, milliseconds=0.12, size=size, gbps=135.96, bus_gbps=118.96)
    assert printed.seconds() == pytest.approx(16.777216 / 135.96 / 1e3, rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "rates", "taken_ms"),
    [
        ("all_gather", (67.11, 58.72), 8.388608 * 8 / 67.11),  # 8 parts of 1 MiB in 1 ms; 58.72 is 7/8 of it
        ("all_gather", (67.11, 62.91), 1.0),  # 15/16: a job of 16 ranks, and a group that is not all of it
        ("reduce_scatter", (8.39, 7.34), 8.388608 / 8.39),  # the input of 1 MiB, as since 2025
        ("reduce_scatter", (67.11, 58.72), 8.388608 * 8 / 67.11),  # times the ranks, as before
        ("all_to_all", (8.39, 7.34), 8.388608 / 8.39),
        ("all_to_all", (4.19, 3.67), 1.0),  # half the rate that the printed time has: not that of this call
    ],
)
def test_a_rate_counts_only_where_it_agrees_with_the_printed_time(
    kind: str, rates: tuple[float, float], taken_ms: float
) -> None:
    size = PrintedSize(num_bytes=1 << 20, off=0.0)
    printed = Printed(kind=kind, devices=8, milliseconds=1.0, size=size, gbps=rates[0], bus_gbps=rates[1])  # type: ignore[arg-type]
    assert printed.seconds() == pytest.approx(taken_ms / 1e3, rel=1e-12)


def test_a_summary_is_read_where_there_are_no_lines_and_the_last_one_counts(tmp_path: Path) -> None:
    first = f"{HEAD}\nall_reduce\n{'':20}1.0 MB{'':14}2                   2.00  1.00  16.78  15.73\n"
    second = f"{HEAD}\nall_reduce\n{'':20}1.0 MB              4                   8.00  2.00  8.39  7.86\n"
    second += f"{'':20}0B                  1                   9.00  9.00  0.00  0.00\n"
    second += f"barrier\n{'':20}0B   3  1.0 2.0 0.0 0.0\n"
    gathers = f"all_gather_into_tensor | [Caller Func: gather]\n{'':20}1.0 KB              4     8.00  3.00  1.0  1.0\n"
    reading = read(log(tmp_path, first + "training goes on\n" + second + gathers))
    gather, reduce = reading.rows
    assert (reduce.num_bytes, reduce.seconds, gather.num_bytes, gather.seconds) == (1 << 20, 2e-3, 16 << 10, 3e-3)
    assert reading.said == (
        "Left out: 3 records: barrier, of which no times are taken.",
        "Left out: 1 record of one rank, or without bytes or time.",
    )


def test_the_table_of_stragglers_has_the_least_times(tmp_path: Path) -> None:
    rows = "".join(f"{'':20}{size}.0 MB              4     8.00  {size}.00  8.39  7.86\n" for size in (1, 2))
    least = "".join(f"{'':20}{size}.0 MB              4     4.00  4.00  0.{size}5  0.50\n" for size in (1, 2))
    text = (
        f"{HEAD}\nall_reduce\n{rows}_______\nBreakdown with straggler effect\n------\n{STRAGGLERS}\nall_reduce\n{least}"
    )
    assert [row.seconds for row in read(log(tmp_path, text)).rows] == pytest.approx([0.15e-3, 0.25e-3])
