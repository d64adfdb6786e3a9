"""Reading tables of what one device computes: matrix products or kernels, told apart by their columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from simfrontier.measured.csv_kernels import read_kernels
from simfrontier.measured.csv_rates import read_rates
from simfrontier.measured.recognise import columns_of
from simfrontier.measured.rows import KernelRow, RateRow

OF_PRODUCTS: Final = {"m", "n", "k"}  # columns that no other table has
OF_KERNELS: Final = {"kernel", "shape"}


def read_of_device(path: Path) -> Sequence[RateRow | KernelRow] | None:
    """The rows of such a table; None where the first line does not name its columns. Raises InputError as read_calls
    does."""
    columns = columns_of(path)
    if columns >= OF_PRODUCTS:
        return read_rates(path)
    return read_kernels(path) if columns >= OF_KERNELS else None
