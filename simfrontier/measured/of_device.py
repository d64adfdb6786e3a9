"""Reading tables of what one device computes: matrix products or kernels, told apart by their columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from simfrontier.limits import TABLE_FILE
from simfrontier.measured.csv_kernels import read_kernels
from simfrontier.measured.csv_rates import read_rates
from simfrontier.measured.rows import KernelRow, RateRow

OF_PRODUCTS: Final = {"m", "n", "k"}  # columns that no other table has
OF_KERNELS: Final = {"kernel", "shape"}


def read_of_device(path: Path) -> Sequence[RateRow | KernelRow] | None:
    """The rows of such a table; None where the first line does not name its columns. Raises InputError as read_calls
    does."""
    columns = _first_line(path)
    if columns >= OF_PRODUCTS:
        return read_rates(path)
    return read_kernels(path) if columns >= OF_KERNELS else None


def _first_line(path: Path) -> set[str]:
    """The cells of a file's first line that is not empty; none where it cannot be read, which its reader reports."""
    try:
        text = TABLE_FILE.read(path).decode("utf-8-sig", errors="replace")
    except (OSError, ValueError):
        return set()
    return {cell.strip() for cell in text.lstrip().partition("\n")[0].split(",")}
