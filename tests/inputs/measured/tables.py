"""What tests of measured tables share: refusals, shipped rows of one form, tables of calls as files, a log."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import pytest

from simfrontier.base.errors import InputError
from simfrontier.inputs.measured import CallRow, CopyRow, RateRow, Setup, load_table, readings
from simfrontier.inputs.measured.tables import CALL_COLUMNS as COLUMNS

_Row = TypeVar("_Row", CallRow, CopyRow, RateRow)


def refused(read: Callable[[Path], object], path: Path) -> str:
    """The one line with which a reader refuses a file, FILE in place of its path."""
    with pytest.raises(InputError) as caught:
        read(path)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(str(path), "FILE")


def read_any(path: Path, setup: Setup) -> tuple[CallRow, ...]:
    """The rows of a file, or of a folder of files, of any form."""
    return tuple(row for reading in readings([path], setup) for row in reading.rows)


def shipped(name: str, form: type[_Row]) -> list[_Row]:
    """The rows of one form in a shipped table."""
    return [row for row in load_table(name).rows if isinstance(row, form)]


def write_calls(path: Path, rows: Iterable[CallRow]) -> Path:
    """The rows as a user's file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row in rows:
            given = (
                row.machine,
                row.collective,
                row.library,
                row.devices,
                row.num_bytes,
                repr(row.seconds),
                row.source,
            )
            writer.writerow(given)
    return path


def nccl_log(times_us: dict[int, float], hosts: int = 2, per_host: int = 1) -> str:
    """What all_gather_perf prints: bytes of the whole buffer and microseconds, the same in and out of place."""
    ranks = "".join(
        f"#  Rank {rank:2d} Group  0 Pid  1 on node{rank // per_host} device {rank % per_host:2d} [0xc1] MI250X\n"
        for rank in range(hosts * per_host)
    )
    rows = "".join(
        f"{size:12} {size // 16:13}     float    none      -1" + 2 * f"  {us:7}   10.67    8.00      0" + "\n"
        for size, us in times_us.items()
    )
    head = "#       size         count      type   redop    root" + 2 * "     time   algbw   busbw #wrong"
    return f"# nThread 1 nGpus 1 minBytes 1048576\n# Using devices\n{ranks}{head}\n{rows}"
