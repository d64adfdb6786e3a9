"""Logs whose lines begin with what a launcher, a terminal or a clock writes: they are read as without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.inputs.measured import CallRow, Setup, readings
from tests.inputs.measured.tables import nccl_log

SETUP = Setup(machine="frontier", library="rccl", devices=8)
OSU = """\
# OSU MPI-ROCM Allgather Latency Test v7.5
# Size       Avg Latency(us)
1024                   10.00
2048                   12.00
"""
HEAD = "Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     "
DEEPSPEED = f"""\
{HEAD}tput_avg (Gbps)     busbw_avg (Gbps)
all_reduce
                    8.0 MB              2                   2.00                1.00           134.22       117.44
                    16.0 MB             2                   4.00                2.00           134.22       117.44
"""
LOGS = {"all_gather_perf.log": nccl_log({1048576: 20.0, 2097152: 30.0}), "osu.txt": OSU, "train.log": DEEPSPEED}
# Two prefixes of one launcher: of the lines in turn, as those of two ranks or moments.
PREFIXES = {
    "Open MPI with times": ("Fri Nov  7 12:00:09 2026[1,0]<stdout>:", "Fri Nov 10 12:00:10 2026[1,0]<stdout>:"),
    "PRRTE, detailed": ("[1,0][node-a:101]<stdout>: ", "[1,0][node-a:101]<stdout>: "),
    "srun -l": ("0: ", "0: "),
    "Kubernetes": ("2026-11-27T12:00:00.123456789Z ", "2026-11-27T12:00:01.5Z "),
    "docker compose, coloured": ("\x1b[36mnode-1  |\x1b[0m ", "\x1b[36mnode-1  |\x1b[0m "),
}


def read(folder: Path, name: str, text: str) -> list[CallRow]:
    (folder / name).write_text(text)
    (reading,) = readings([folder / name], SETUP)
    assert reading.said == ()
    return list(reading.rows)


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("launcher", PREFIXES)
def test_a_log_with_prefixes_is_the_log_without_them(tmp_path: Path, name: str, launcher: str) -> None:
    shell = "srun: job 1 has been started\n"
    plain = read(tmp_path, name, shell + LOGS[name])
    lines = LOGS[name].splitlines()
    tagged = "".join(f"{PREFIXES[launcher][number % 2]}{line}\n" for number, line in enumerate(lines))
    assert len(plain) == 2
    assert read(tmp_path, name, shell + tagged) == plain


def test_a_header_behind_a_row_without_an_end_is_a_header(tmp_path: Path) -> None:
    """Two programs that write at once may leave a line without its end: that row is lost, and no other."""
    again = OSU.replace("Allgather", "Allreduce")
    rows = read(tmp_path, "osu.txt", OSU.rstrip() + again)
    assert [(row.collective, row.num_bytes, row.seconds) for row in rows] == [
        ("all_gather", 8192, 10e-6),
        ("all_reduce", 1024, 10e-6),
        ("all_reduce", 2048, 12e-6),
    ]
