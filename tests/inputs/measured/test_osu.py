"""Output of OSU micro-benchmarks of several versions: what sizes and times become, and output that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.inputs.measured import RowPlace, Setup, readings
from tests.inputs.measured.tables import read_any

SETUP = Setup(machine="lumi-g", library="cray-mpich", devices=16, nodes=2)
ALLGATHER = """\
# OSU MPI-ROCM Allgather Latency Test v7.5
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)
1                       7.80
8                       7.82
1024                   20.50
"""
ALLREDUCE = """
# OSU MPI Allreduce Latency Test v5.6.2
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
4                       6.34              6.1               6.9         1000
8                       6.40              6.1               6.9         1000

srun: 2 nodes were used
12 of 12 done
"""
OTHERS = """
# OSU NCCL All-to-All Personalized Exchange Latency Test v7.5
# Size       Avg Latency(us)
2                       13.87
# OSU MPI Reduce_scatter Latency Test v7.5
# Size       Avg Latency(us)
64                       9.50
# OSU MPI Broadcast Latency Test v7.5
# Size       Avg Latency(us)
64                       2.69
"""
BW = """\
# OSU MPI-ROCM Bandwidth Test v7.0
# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)
# Size      Bandwidth (MB/s)
16777216           142235.39
"""


ONE = "\n".join(line for line in ALLGATHER.splitlines() if not line.startswith("1"))  # 8 bytes in 7.82 us alone


def log(folder: Path, text: str) -> Path:
    path = folder / "osu.txt"
    path.write_text(text)
    return path


def test_sizes_become_whole_messages_and_microseconds_seconds(tmp_path: Path) -> None:
    path = log(tmp_path, ALLGATHER + ALLREDUCE + OTHERS)
    rows = read_any(path, SETUP)
    # an all-gather of 1 byte per rank among 16 is 16 bytes, an all-to-all of 2 bytes per destination 32; others whole
    assert [(row.collective, row.num_bytes) for row in rows] == [
        ("all_gather", 16),
        ("all_gather", 128),
        ("all_gather", 16384),
        ("all_reduce", 4),
        ("all_reduce", 8),
        ("all_to_all", 32),
        ("reduce_scatter", 64),
        ("broadcast", 64),
    ]
    assert [row.seconds for row in rows] == pytest.approx(
        [7.80e-6, 7.82e-6, 20.5e-6, 6.34e-6, 6.4e-6, 13.87e-6, 9.5e-6, 2.69e-6]
    )
    first = rows[0]
    assert (first.machine, first.library, first.devices, first.nodes) == ("lumi-g", "cray-mpich", 16, 2)
    assert (first.place, first.source) == (RowPlace(str(path), 4), "osu.txt")


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (ALLGATHER.replace("Allgather", "Iallgather"), "Left out: 3 lines of Iallgather Latency Test."),
        (BW, "Left out: 1 line of Bandwidth Test."),
        (ONE.replace("7.82", "0.00"), "Left out: 1 line of Allgather Latency Test without a time above 0."),
    ],
)
def test_what_gives_no_time_is_left_out_and_counted(tmp_path: Path, other: str, said: str) -> None:
    (reading,) = readings([log(tmp_path, ALLREDUCE + other + OTHERS)], SETUP)
    assert [row.collective for row in reading.rows] == [
        *("all_reduce", "all_reduce", "all_to_all", "reduce_scatter", "broadcast"),
    ]
    assert reading.said == (said,)
