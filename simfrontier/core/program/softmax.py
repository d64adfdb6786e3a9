"""Kernels of a softmax over rows that do not stay on the chip: the number of memory passes of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class MemoryPasses:
    """How often a kernel reads a row of N elements, reads its result and writes it."""

    row_reads: int
    result_reads: int
    result_writes: int

    @property
    def accesses(self) -> int:
        """How often it reads or writes a row, or its result."""
        return self.row_reads + self.result_reads + self.result_writes


# Counted from the published kernels (arXiv 2001.04438; google/XNNPACK bench/f32-softmax.cc: 3N, 4N and 5N); that a
# row which stays on the chip is read once and written once is the least.
KERNELS: Final[Mapping[str, MemoryPasses]] = {
    "fused": MemoryPasses(row_reads=1, result_reads=0, result_writes=1),
    "two-pass": MemoryPasses(row_reads=2, result_reads=0, result_writes=1),
    "three-pass-recompute": MemoryPasses(row_reads=3, result_reads=0, result_writes=1),
    "three-pass-reload": MemoryPasses(row_reads=2, result_reads=1, result_writes=2),
}
