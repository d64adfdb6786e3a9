"""What the kernels of a software stack make of a device: attention in one kernel, and how fused the others are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Annotated, Final, Literal

from simfrontier.base.io import SOURCED, NotNegative
from simfrontier.core.machine.elementary import minimum

AttentionKernel = Literal["flash1", "flash2"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredKernel:
    """A kernel of a job that was read from its traces: how long it took on a typical device, in seconds; where they are
    known, the bytes that it moves through memory and the seconds of its arithmetic, by which it shares the device with
    what runs beside it."""

    seconds: float
    num_bytes: float = 0.0
    arithmetic_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """What a stack launches. `attention`: flop/s of its fused attention (None: as products of that shape), forward and
    backward together, of the products that it makes (with causal attention, those of half of the square).
    `pointwise_traffic`: bytes that kernels without products move for each byte of the graph's ops, which are as fused
    as they can be (1: as the graph says); `traffic_of`: the same of some kinds of ops. `linear`: the type of numbers in
    the products of linear modules, where it is not that of the model (fp8, with casts before and scales after).
    `measured`: the kernels of a job that was read from its traces, by the names of its ops."""

    attention: float | None = None
    pointwise_traffic: float = 1.0
    traffic_of: Mapping[str, float] = field(default_factory=dict, hash=False)
    linear: Literal["fp8"] | None = None
    measured: Mapping[str, MeasuredKernel] = field(default_factory=dict, hash=False)

    def traffic(self, kind: str) -> float:
        """Bytes that a kernel without products moves for each of an op of that kind."""
        return self.traffic_of.get(kind, self.pointwise_traffic)


PLAIN_KERNELS = Kernels()


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
