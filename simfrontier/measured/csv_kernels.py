"""Reading times of kernels from CSV: memory-bound ones and fused attention, on one device."""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

from simfrontier.measured.csv_rates import STATUSES
from simfrontier.measured.csvfile import Line, read_lines
from simfrontier.measured.rows import KERNEL_KINDS, KernelKind, KernelRow, refuse_repeats

KERNEL_COLUMNS: Final = (
    "machine",
    "kernel",
    "dtype",
    "shape",
    "bytes",
    "flops",
    "statistic",
    "time_s",
    "status",
    "source",
)


def read_kernels(path: Path, called: str = "") -> tuple[KernelRow, ...]:
    """The rows of a table, in the file's order; `flops` is given for attention and empty for the others. Raises
    InputError as read_calls does."""
    rows = tuple(map(_row, read_lines(path, KERNEL_COLUMNS, called)))
    refuse_repeats(rows)
    return rows


def _row(line: Line) -> KernelRow:
    kernel = cast(KernelKind, line.choice("kernel", KERNEL_KINDS))
    if (kernel == "attention") != bool(line.cells["flops"]):
        raise line.fault("flops", "a number for attention, and nothing for other kernels")
    return KernelRow(
        machine=line.machine(),
        kernel=kernel,
        dtype=line.text("dtype"),
        shape=line.text("shape"),
        num_bytes=line.integer("bytes"),
        flops=line.optional("flops"),
        statistic=line.text("statistic"),
        seconds=line.above_zero("time_s", "a number of seconds above 0, e.g. 0.000151"),
        status=line.choice("status", STATUSES),
        source=line.text("source"),
        place=line.place,
    )
