"""Logs of NCCL's Inspector: whose time of a call is taken, what sizes become, what is left out, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simfrontier.inputs.measured import Reading, Setup, readings

SETUP = Setup(machine="frontier", library="rccl")


def line(rank: int, number: int, time_us: float, **changes: Any) -> dict[str, Any]:
    """A record of an all-gather of 4 KiB from each of 16 ranks on 2 nodes."""
    perf = {"coll": "AllGather", "coll_sn": number, "coll_msg_size_bytes": 4096, "coll_exec_time_us": time_us}
    header = {"id": "0xab", "rank": rank, "n_ranks": 16, "nnodes": 2}
    metadata = {"inspector_output_format_version": "v4.0", "hostname": f"n{rank // 8}", "pid": rank}
    for name, value in changes.items():
        next(part for part in (perf, header, metadata) if name in part)[name] = value
    return {"header": header, "metadata": metadata, "coll_perf": perf}


def log(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def read(*paths: Path) -> Reading:
    (reading,) = readings(paths, SETUP)
    return reading


def test_what_is_no_time_is_left_out_and_counted(tmp_path: Path) -> None:
    records = [
        *(line(0, 0, 5), line(0, 1, 5, coll_msg_size_bytes=8192), line(0, 2, 0), line(0, 3, 5, coll="Reduce")),
        *(line(0, 4, 5, n_ranks=1, nnodes=1), line(0, 5, 5, n_ranks=15), line(0, 6, 9), line(1, 6, 9)),
    ]
    records[-1]["coll_perf"]["coll_msg_size_bytes"] = 12
    stats = {key: records[0][key] for key in ("header", "metadata")} | {"dump_stats": {"coll_records": 1}}
    reading = read(log(tmp_path / "x.log", stats, *records))
    assert len(reading.rows) == 2
    assert reading.said == (
        "Left out: 1 record: Reduce, of which no times are taken.",
        "Left out: 2 records of one rank, or without bytes or time.",
        "Left out: 1 record: ranks report different kinds or sizes.",
        "Left out: 1 record: ranks that are unevenly spread over nodes.",
        "Read: a file of 1 rank, of groups of up to 16: where the rank that came last is missing, times hold waiting.",
    )


def test_a_last_line_that_is_cut_short_is_left_out_and_counted(tmp_path: Path) -> None:
    lines = [line(0, 0, 5), line(0, 1, 7, coll_msg_size_bytes=8192), line(0, 2, 5, coll="AllGatherOfTomorrow")]
    path = tmp_path / "x.log"
    path.write_text("".join(json.dumps(each) + "\n" for each in [*lines, line(0, 3, 5)])[:-40])
    reading = read(path)
    assert [row.seconds for row in reading.rows] == [5e-6, 7e-6]
    assert reading.said[:2] == (
        "Left out: 1 record: AllGatherOfTomorrow, of which no times are taken.",
        "Left out: 1 record: a last line that is cut short.",
    )
