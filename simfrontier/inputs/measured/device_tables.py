"""CSV tables of what devices do: matrix products, kernels, copies between two devices, and published training runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from simfrontier.base.errors import InputError, wrong
from simfrontier.inputs.measured.format import FileStart
from simfrontier.inputs.measured.rows import CopyRow, KernelRow, Quantity, RateRow
from simfrontier.inputs.measured.table_file import read_rows

_PUBLISHED: Final = ("machine", "quantity", "value", "status", "source")
PRODUCT_COLUMNS: Final = (*_PUBLISHED, "statistic", "dtype", "m", "n", "k")
TRAINING_COLUMNS: Final = (*_PUBLISHED, "model", "plan", "devices")
KERNEL_COLUMNS: Final = (
    *("machine", "kernel", "dtype", "shape", "bytes", "flops"),
    *("statistic", "time_s", "status", "source"),
)
COPY_COLUMNS: Final = (
    *("machine", "benchmark", "scope", "path_class", "gcd_pair", "bytes"),
    *("library", "value", "unit", "source"),
)
PRODUCT_QUANTITIES: Final[tuple[Quantity, ...]] = ("seconds", "flops_per_s")


def columns_of(path: Path) -> set[str]:
    """Return the cells of a file's first line, as of a CSV table; none if it is no file. Raises InputError."""
    return FileStart(path).columns if path.is_file() else set()


def read_of_device(path: Path) -> Sequence[RateRow | KernelRow] | None:
    """Read a table of matrix products or of kernels on one device; None if its columns are others. Raises
    InputError."""
    columns = columns_of(path)
    if columns >= {"m", "n", "k"}:
        return read_rates(path)
    return read_kernels(path) if columns >= {"kernel", "shape"} else None


def read_rates(path: Path, called: str = "") -> tuple[RateRow, ...]:
    """Read rates: of training runs if the table has a column `model`, else of matrix products. m, n, k and devices are
    empty where they are not known. Raises InputError."""
    if "model" in columns_of(path):
        rows = read_rows(path, RateRow, TRAINING_COLUMNS, called, {"what": "training", "statistic": "published"})
        wrong_row = next((row for row in rows if row.quantity == "seconds"), None)
        allowed = "a rate or a share of a training run"
    else:
        rows = read_rows(path, RateRow, PRODUCT_COLUMNS, called, {"what": "matmul", "devices": 1})
        wrong_row = next((row for row in rows if row.quantity not in PRODUCT_QUANTITIES), None)
        allowed = " or ".join(PRODUCT_QUANTITIES)
    if wrong_row is not None:
        raise InputError(f"quantity: {wrong(wrong_row.quantity, allowed)}", where=str(wrong_row.place))
    return rows


def read_kernels(path: Path, called: str = "") -> tuple[KernelRow, ...]:
    """Read times of memory-bound kernels, whose `flops` are empty, and of fused attention. Raises InputError."""
    rows = read_rows(path, KernelRow, KERNEL_COLUMNS, called)
    for row in rows:
        if (row.kernel == "attention") != (row.flops is not None):
            allowed = "a number for attention, and nothing for other kernels"
            raise InputError(f"flops: {wrong(row.flops, allowed)}", where=str(row.place))
    return rows


def read_copies(path: Path, called: str = "") -> tuple[CopyRow, ...]:
    """Read copies as point-to-point benchmarks print them; `gcd_pair` may be empty. Raises InputError."""
    rows = read_rows(path, CopyRow, COPY_COLUMNS, called)
    for row in rows:
        if (row.benchmark == "osu_latency") != (row.unit == "us"):
            allowed = "us of osu_latency, GB/s or MB/s of others"
            raise InputError(f"unit: {wrong(row.unit, allowed)}", where=str(row.place))
    return rows
