"""How matrix products fill a device: in tiles, in waves of as many tiles as there are compute units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Final

from simfrontier.base.io import SOURCED, NotNegative
from simfrontier.core.machine.elementary import minimum

# Rows × columns of what one block of threads makes (NVIDIA, Matrix Multiplication Background User's Guide, section 3).
SHAPES: Final = ((256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64))
ALIGNED: Final = 64  # elements of 16 bits: 128 bytes, from where on products are fastest (same guide, section 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """Products in waves: all units make one tile each, and a wave takes as long however few of them have work.

    A tile of r × c takes as long as r·c·(k + `start`)·(1 + `loads`·(1/r + 1/c)) / (1 + `loads`·(1/256 + 1/128))
    multiplications at the rate of large products: `start`, in elements of k, is what filling the pipeline and writing
    the result cost; `loads` what reading operands does, more for smaller tiles. The fastest shape is taken.
    """

    start: Annotated[NotNegative, SOURCED]
    loads: Annotated[NotNegative, SOURCED]

    def slowdown(self, m: int, n: int, k: int, batch: int, units: int) -> float:
        """Time of `batch` products (m x k)(k x n) over what 2·m·n·k flops each take at full rate."""
        work = batch * float(m) * n * k
        best = reduce(minimum, [self._work(m, n, k, batch, units, rows, columns) for rows, columns in SHAPES])
        return best / work

    def _work(self, m: int, n: int, k: int, batch: int, units: int, rows: int, columns: int) -> float:
        """Multiplications, of a shape of tiles, in whose time at full rate all waves pass."""
        tiles = batch * -(-m // rows) * -(-n // columns)
        each = rows * columns * (k + self.start) * self._loading(rows, columns) / self._loading(*SHAPES[0])
        return -(-tiles // units) * units * each

    def _loading(self, rows: int, columns: int) -> float:
        """Time of a tile over what its multiplications alone take."""
        return 1.0 + self.loads * (1.0 / rows + 1.0 / columns)


def misaligned(loss: float, m: int, n: int, k: int) -> float:
    """Factor on the time of a product whose sizes do not divide by 64 elements, at a `loss` per halving."""
    divisor = math.gcd(math.gcd(m, n, k), ALIGNED)
    return 1.0 + loss * math.log2(ALIGNED / (divisor & -divisor))
