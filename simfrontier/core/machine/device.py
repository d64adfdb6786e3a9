"""A device: rates of its matrix products, other kernels and codecs, and the kernels of a software stack.

The laws are of floats, or of numpy arrays that hold a value for each variation (`elementary`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Annotated, Final, Literal

from annotated_types import Ge, Le

from simfrontier.base.io import SOURCED, Derived, Names, NotNegative, Part, Positive, Share, Switch
from simfrontier.core.codecs import timed_codecs
from simfrontier.core.machine.elementary import maximum, minimum

COMPUTE_UNITS: Final = 1_000_000  # devices have hundreds
AttentionKernel = Literal["flash1", "flash2"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredKernel:
    """A kernel read from the traces of a job: its time on a nominal device, in seconds; if known, also the bytes that
    it moves through memory and the seconds of its arithmetic, which determine how it shares the device with concurrent
    work."""

    seconds: float
    num_bytes: float = 0.0
    arithmetic_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """Kernels that a stack launches. `attention`: flop/s of its fused attention (None: as products of that shape),
    forward and backward together, of the products that it computes (with causal attention, those of half of the
    square). `pointwise_traffic`: bytes that kernels without products move per byte of the graph's ops, which are fused
    as far as possible (1: as in the graph); `traffic_of`: the same for some kinds of ops. `linear`: number type of the
    products in linear modules, if it is not that of the model (fp8, with casts before and scales after). `measured`:
    kernels read from the traces of a job, by the names of its ops."""

    attention: float | None = None
    pointwise_traffic: float = 1.0
    traffic_of: Mapping[str, float] = field(default_factory=dict, hash=False)
    linear: Literal["fp8"] | None = None
    measured: Mapping[str, MeasuredKernel] = field(default_factory=dict, hash=False)

    def traffic(self, kind: str) -> float:
        """Return the bytes that a kernel without products moves per byte of an op of that kind."""
        return self.traffic_of.get(kind, self.pointwise_traffic)


PLAIN_KERNELS = Kernels()


# Rows × columns of the tile of one thread block (NVIDIA, Matrix Multiplication Background User's Guide, section 3).
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
        """Return the time of `batch` products (m x k)(k x n) over that of 2·m·n·k flops each at full rate."""
        work = batch * float(m) * n * k
        best = reduce(minimum, [self._work(m, n, k, batch, units, rows, columns) for rows, columns in SHAPES])
        return best / work

    def _work(self, m: int, n: int, k: int, batch: int, units: int, rows: int, columns: int) -> float:
        """Return the time of all waves with tiles of one shape, as a number of multiplications at full rate."""
        tiles = batch * -(-m // rows) * -(-n // columns)
        each = rows * columns * (k + self.start) * self._loading(rows, columns) / self._loading(*SHAPES[0])
        return -(-tiles // units) * units * each

    def _loading(self, rows: int, columns: int) -> float:
        """Return the time of a tile over the time of its multiplications alone."""
        return 1.0 + self.loads * (1.0 / rows + 1.0 / columns)


def misaligned(loss: float, m: int, n: int, k: int) -> float:
    """Return the factor on the time of a product whose sizes do not divide by 64 elements, at a `loss` per halving."""
    divisor = math.gcd(math.gcd(m, n, k), ALIGNED)
    return 1.0 + loss * math.log2(ALIGNED / (divisor & -divisor))


@dataclass(frozen=True, slots=True, kw_only=True)
class Matmul:
    """Matrix products of one type of numbers: the nominal peak, and the achieved rate.

    They run at rate(m, n, k, batch) = R * x / (x + x0) with the square-equivalent edge x = (batch * m * n * k)^(1/3),
    R = `matmul_flops_per_s` and x0 = `matmul_half_edge` (the edge that gets half of R). R and x0 are fitted on square
    products; that other shapes run like the square of equal work is assumed. Where the device has `tiles`, they take
    the place of x0: R is then the rate of full waves, of `num_compute_units` tiles each. Sizes that do not divide by 64
    elements cost `misaligned` for each halving.
    """

    peak_flops_per_s: Annotated[Positive, SOURCED]
    matmul_flops_per_s: Annotated[Positive, SOURCED]
    matmul_half_edge: Annotated[NotNegative, SOURCED]
    tiles: Annotated[Tiles | None, Derived(None)] = None
    num_compute_units: Annotated[int, Derived(1)] = 1
    misaligned: Annotated[float, Derived(0.0)] = 0.0

    def rate(self, m: int, n: int, k: int, batch: int = 1) -> float:
        """Return the achieved flop/s of `batch` products (m x k)(k x n), 2*m*n*k flops each."""
        full = self.matmul_flops_per_s / misaligned(self.misaligned, m, n, k)
        if self.tiles is not None:
            return full / self.tiles.slowdown(m, n, k, batch, self.num_compute_units)
        edge = math.cbrt(batch * m * n * k)
        return full * edge / (edge + self.matmul_half_edge)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulForms:
    """Factors on the rate of `Matmul` by the form of a linear module's product.

    Forms have their BLAS (column-major) names, for weights stored as [outputs, inputs]: the forward product is `tn`,
    that of the inputs' gradient `nn`, that of the weights' gradient `nt`. If products are `tuned`, each of the first
    two runs in the fastest form, found before the step, as in AxoNN (axonn-ai/axonn, branch add-timers-gordon-bell);
    the time to transpose an operand is not counted.
    """

    tn: Annotated[Positive, SOURCED] = 1.0
    nn: Annotated[Positive, SOURCED] = 1.0
    nt: Annotated[Positive, SOURCED] = 1.0
    tuned: Annotated[bool, Switch(), SOURCED] = False

    def factor(self, form: Literal["tn", "nn", "nt"] | None) -> float:
        """Return the factor on the rate of a product of that form; 1 for a product without one (None)."""
        if form is None:
            return 1.0
        own = {"tn": self.tn, "nn": self.nn, "nt": self.nt}
        return maximum(self.tn, maximum(self.nn, self.nt)) if self.tuned and form != "nt" else own[form]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecSpeeds:
    """Encoding and decoding speeds of a device for one family of codecs: bytes of uncompressed 32-bit values per
    second."""

    encode_bytes_per_s: Annotated[Positive, SOURCED]
    decode_bytes_per_s: Annotated[Positive, SOURCED]


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GCD or GPU. Matrix products of 16-bit numbers are always known, those of wider ones where the file has
    them.

    `speed_sd` is the relative standard deviation of speed between devices of the machine, `call_sd` that of the time of
    a kernel on one device from one launch to the next, `matmul_sd` that of the natural logarithm of measured rates of
    matrix products around the law of `Matmul`; 0 where the file does not say.
    `codecs`: speeds by name of the codec (`codecs.timed_codecs`), of those in the file.
    """

    hbm_bytes: Annotated[Positive, SOURCED]
    hbm_bytes_per_s: Annotated[Positive, SOURCED]  # nominal
    hbm_share: Annotated[Share, SOURCED]  # of it, what a streaming kernel achieves
    num_compute_units: Annotated[int, Ge(1), Le(COMPUTE_UNITS), SOURCED]
    peak_flops_per_s: Annotated[Positive, SOURCED]  # 16-bit matrix peak, the denominator of a 16-bit model's MFU
    matmul_flops_per_s: Annotated[Positive, SOURCED]  # of 16-bit numbers
    matmul_half_edge: Annotated[NotNegative, SOURCED]
    kernel_gap_s: Annotated[NotNegative, SOURCED]  # between two kernels of one stream
    speed_sd: Annotated[Part, SOURCED] = 0.0
    call_sd: Annotated[Part, SOURCED] = 0.0
    matmul_sd: Annotated[Part, SOURCED] = 0.0
    fp8: Matmul | None = None
    fp32: Matmul | None = None
    fp64: Matmul | None = None
    matmul_forms: MatmulForms = MatmulForms()
    tiles: Tiles | None = None
    misaligned: Annotated[NotNegative, SOURCED] = 0.0  # see `kernels.misaligned`
    attention: Mapping[AttentionKernel, Annotated[Positive, SOURCED]] = field(default_factory=dict, hash=False)
    codecs: Mapping[Annotated[str, Names(timed_codecs)], CodecSpeeds] = field(default_factory=dict, hash=False)

    def matmuls(self) -> dict[str, Matmul]:
        """Return the rates of matrix products by number type; types that the machine's file does not give are
        absent."""
        narrow = Matmul(
            peak_flops_per_s=self.peak_flops_per_s,
            matmul_flops_per_s=self.matmul_flops_per_s,
            matmul_half_edge=self.matmul_half_edge,
            tiles=self.tiles,
            num_compute_units=self.num_compute_units,
            misaligned=self.misaligned,
        )
        fp8 = (
            None if self.fp8 is None else replace(self.fp8, tiles=self.tiles, num_compute_units=self.num_compute_units)
        )
        every = {"fp8": fp8, "fp16": narrow, "bf16": narrow, "fp32": self.fp32, "fp64": self.fp64}
        return {name: one for name, one in every.items() if one is not None}

    def matmul_rate(self, m: int, n: int, k: int, batch: int = 1) -> float:
        """Return the achieved flop/s of `batch` products (m x k)(k x n) of 16-bit numbers, 2*m*n*k flops each."""
        return self.matmuls()["fp16"].rate(m, n, k, batch)

    def roofline_s(self, math_s: float, num_bytes: float) -> float:
        """Return the longer of `math_s` seconds of arithmetic and the time to move `num_bytes` through memory, in
        seconds."""
        return maximum(math_s, num_bytes / (self.hbm_bytes_per_s * self.hbm_share))

    def kernel_s(self, math_s: float, num_bytes: float, speed: float = 1.0) -> float:
        """Return the time of a kernel, in seconds: the gap before it, then its roofline time on a device of `speed`
        times the nominal speed."""
        return self.kernel_gap_s + self.roofline_s(math_s, num_bytes) / speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The host process of one rank."""

    hook_s: Annotated[NotNegative, SOURCED]  # host time per module hook
