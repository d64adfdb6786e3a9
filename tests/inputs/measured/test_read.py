"""Files of any known form give rows: what they are is told by their content."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.core.collectives import Calibration, CallTable, MeasuredPoint, write_calibration
from simfrontier.core.trace import Span, Trace, write_perfetto
from simfrontier.inputs.measured import Setup
from tests.inputs.measured.tables import read_any

SETUP = Setup(machine="frontier", library="rccl", devices=4)
TABLE = CallTable(
    kind="all_reduce",
    ranks=8,
    nodes=2,
    packages=4,
    points=(MeasuredPoint(bytes=1024, seconds=1e-4), MeasuredPoint(bytes=4096, seconds=2e-4)),
)
CALIBRATION = Calibration(title="mine", where="here", when="today", how="so", calls=(TABLE,))


def span(kind: str, axes: str, message_bytes: float, start_s: float, end_s: float) -> Span:
    return Span(
        op=0,
        lane="gather",
        kind=kind,
        name="w",
        axes=axes,
        level="",
        call="",
        layer=0,
        micro=0,
        num_bytes=0.0,
        message_bytes=message_bytes,
        ready_s=0.0,
        start_s=start_s,
        end_s=end_s,
    )


def trace(*spans: Span, **notes: str) -> Trace:
    noted = {"mode": "replay, compute real", "backend": "gloo", "mesh": "node 2, package 4, gcd 1"} | notes
    return Trace(digest="d", title="t", ranks=("rank 0",), members=((0,),), spans=(spans,), notes=noted)


GATHERS = (
    span("all_gather", "package", 4096.0, 0.0, 0.001),
    span("all_gather", "package", 4096.0, 0.001, 0.004),
    span("all_gather", "package", 4096.0, 0.004, 0.006),
)
OTHERS = (
    span("all_reduce", "node+package", 512.0, 0.006, 0.010),
    span("matmul", "", 0.0, 0.010, 0.011),
    span("all_reduce", "gcd", 512.0, 0.011, 0.012),
)


def test_a_calibration_gives_rows(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    write_calibration(CALIBRATION, path)
    rows = read_any(path, SETUP)
    assert [(row.num_bytes, row.seconds) for row in rows] == [(1024, 1e-4), (4096, 2e-4)]
    assert {(row.collective, row.devices, row.nodes, row.packages) for row in rows} == {("all_reduce", 8, 2, 4)}
    assert {(row.machine, row.library, row.source) for row in rows} == {("frontier", "rccl", "mine: here, today")}


def test_a_real_trace_gives_the_median_of_every_kind_of_call(tmp_path: Path) -> None:
    path = tmp_path / "trace-zero3.json"
    write_perfetto(trace(*GATHERS, *OTHERS), path)
    gather, reduce = read_any(path, Setup(machine="box"))
    # 1, 3 and 2 ms over 4 packages of one node; 4 ms over all 8 ranks; a group of one rank is no measurement
    assert [(row.collective, row.num_bytes) for row in (gather, reduce)] == [("all_gather", 4096), ("all_reduce", 512)]
    assert [gather.seconds, reduce.seconds] == pytest.approx([0.002, 0.004])
    assert (gather.devices, gather.nodes, gather.packages, gather.library) == (4, 1, 4, "gloo")
    assert (reduce.devices, reduce.nodes, reduce.packages) == (8, 2, 8)


def test_a_table_is_known_without_its_suffix(tmp_path: Path) -> None:
    path = tmp_path / "table.txt"
    path.write_text(
        "machine,collective,library,devices,bytes,time_s,source\nm,all_gather,l,2,1,1e-5,s\nm,bcast,l,2,1,1,s\n"
    )
    assert len(read_any(path, Setup())) == 2
