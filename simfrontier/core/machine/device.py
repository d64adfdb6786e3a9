"""Model of a device (GPU or GCD): rates of its matrix products, other kernels and codecs, and the kernels of a software
stack.

The formulas accept floats, or numpy arrays with one value per variation (see `elementary`).
"""

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
USUAL_KEYS: Final = 4096  # that a query attends to in the measurements of attention: half of 8,192 positions
USUAL_FEATURES: Final = 128  # of a head in these
AttentionKernel = Literal["flash1", "flash2", "sdpa", "cudnn"]  # sdpa: what PyTorch calls where cuDNN is allowed
ExpertProducts = Literal["one", "torch", "streams", "loop"]
NarrowProducts = Literal["all", "modules", "experts"]  # of a layer in a narrow type: all, those of no experts, theirs
NarrowType = Literal["fp8", "mxfp8", "nvfp4"]  # of products: one scale a tensor, one for 32 numbers, one for 16 numbers
NARROWER: Final = {"fp8": 2, "mxfp8": 2, "nvfp4": 4}  # numbers in the bytes of one of 16 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredKernel:
    """A kernel whose time was measured in the traces of a job: its time on a nominal device, in seconds, and, if known,
    the bytes that it moves through memory and the seconds of its arithmetic, which determine how it shares the device
    with concurrent kernels."""

    seconds: float
    num_bytes: float = 0.0
    arithmetic_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """Kernels that a software stack launches.

    `attention`: flop/s of its fused attention kernel, forward and backward together, counting only the matrix products
    that are computed (with causal attention, half of the square of positions); None: as fast as ordinary matrix
    products of those sizes. `attention_keys`, `attention_features`: time of a query's row of tiles and of a score
    besides that of its products, as a number of keys and of features of a head (`attention_share`).
    `pointwise_traffic`: bytes that kernels without matrix products move, per byte that the ops of the graph move, which
    are fused as far as possible (1: as in the graph); `traffic_of`: the same ratio for single kinds of ops. `products`:
    time of a matrix product of a number type relative to the machine's law, where the library's kernels of that type
    are slower. `linear`: number type of the matrix products of the layers' linear modules, if it differs from the
    model's (the output head multiplies in the model's type); `narrow`: of which of these. `cast_bytes`: bytes that
    casting to such a type moves through memory, per number of a linear module's input in the forward and of its
    output's gradient in the backward. `sum_bytes`: bytes that kernels of their own move to add an element of a gradient
    to its sum, by the model's number type (none: the matrix product adds to the sum). `experts`: the products of a
    rank's experts are one kernel, whose waves have tiles of all of them (`torch`: PyTorch's); or one kernel each, which
    run beside each other on streams, so that gaps between kernels come to the time of the waves; or one kernel after
    the other. `pads_rows`: whether rows of experts in a narrow type are copied into blocks whose numbers of rows its
    products take, and out of them, where the dispatcher does not pad them. `masks`: whether rows of experts are chosen
    and added by matrix products with masks. `persistent`: whether matrix products are launched with a thread block for
    every unit, so that beside a collective they take two rounds. `measured`: kernels measured in the traces of a job,
    by op name.
    """

    attention: float | None = None
    attention_keys: float = 0.0
    attention_features: float = 0.0
    pointwise_traffic: float = 1.0
    traffic_of: Mapping[str, float] = field(default_factory=dict, hash=False)
    products: Mapping[str, float] = field(default_factory=dict, hash=False)
    linear: NarrowType | None = None
    narrow: NarrowProducts = "all"
    cast_bytes: Mapping[NarrowType, float] = field(default_factory=dict, hash=False)
    sum_bytes: Mapping[str, float] = field(default_factory=dict, hash=False)
    experts: ExpertProducts = "one"
    pads_rows: bool = False
    masks: bool = False
    persistent: bool = False
    measured: Mapping[str, MeasuredKernel] = field(default_factory=dict, hash=False)

    def attention_share(self, keys: float, features: int) -> float:
        """Return the speed of fused attention relative to `attention`, that of causal attention of 8,192 positions and
        heads of 128 features, for queries that attend to so many keys each and heads of so many features. Longer rows
        and larger heads gain nothing, as on a GB200."""
        tiles = (1.0 + self.attention_keys / USUAL_KEYS) / (1.0 + self.attention_keys / keys)
        scores = (1.0 + self.attention_features / USUAL_FEATURES) / (1.0 + self.attention_features / features)
        return minimum(1.0, tiles) * minimum(1.0, scores)

    def traffic(self, kind: str) -> float:
        """Return the ratio of the bytes that a kernel without matrix products moves to the bytes of its op, for an op
        of that kind."""
        return self.traffic_of.get(kind, self.pointwise_traffic)


PLAIN_KERNELS = Kernels()


# Rows × columns of the tile of one thread block (NVIDIA, Matrix Multiplication Background User's Guide, section 3).
SHAPES: Final = ((256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64))
ALIGNED: Final = 64  # elements of 16 bits: 128 bytes, from where on products are fastest (same guide, section 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """Wave model of matrix products: every compute unit calculates one output tile per wave, and a wave takes equally
    long however few units have work.

    A tile of r × c outputs takes as long as r·c·(k + `start`)·(1 + `loads`·(1/r + 1/c)) / (1 + `loads`·(1/256 + 1/128))
    multiplications at the rate of large matrix products. `start` is the cost of filling the pipeline and writing the
    result, in elements of k of 16 bits: twice as many of 8 bits and four times as many of 4 bits, since it is a matter
    of bytes (fitted to single products of B200 to GB300 apart: 0 to 134 elements of 16 bits, 400 to 800 of FP8, 800 to
    1,600 of NVFP4; ai-dynamo/aiconfigurator@095f58a, systems/data/*/gemm); `loads` is the cost of reading operands,
    which is relatively higher for smaller tiles. The fastest tile shape is used.
    """

    start: Annotated[NotNegative, SOURCED]
    loads: Annotated[NotNegative, SOURCED]

    def of_narrower(self, times: int) -> Tiles:
        """Return the model for numbers of which `times` as many have the bytes of one of 16 bits."""
        return replace(self, start=times * self.start)

    def slowdown(self, m: int, n: int, k: int, batch: int, units: int, by_chance: bool = False) -> float:
        """Return the time of `batch` matrix products (m x k)(k x n), relative to the time of 2·m·n·k flops each at the
        full rate. `by_chance`: m is the mean of a number of rows that chance gives to each product."""
        work = batch * float(m) * n * k
        high = mean_tiles if by_chance else num_tiles
        best = reduce(
            minimum,
            [
                self._work(batch * high(m, rows) * num_tiles(n, columns), k, units, rows, columns)
                for rows, columns in SHAPES
            ],
        )
        return best / work

    def _work(self, tiles: float, k: int, units: int, rows: int, columns: int) -> float:
        """Return the time of all waves with tiles of one shape, as a number of multiplications at the full rate."""
        each = rows * columns * (k + self.start) * self._loading(rows, columns) / self._loading(*SHAPES[0])
        return -(-tiles // units) * units * each

    def _loading(self, rows: int, columns: int) -> float:
        """Return the time of a tile relative to the time of its multiplications alone."""
        return 1.0 + self.loads * (1.0 / rows + 1.0 / columns)


def num_tiles(size: int, tile: int) -> int:
    """Return the number of tiles that cover a side of a matrix."""
    return -(-size // tile)


def mean_tiles(rows: int, tile: int) -> float:
    """Return the mean number of tiles that cover a number of rows with that mean which many positions choose at random,
    with its root as standard deviation: the sum of the chances that there are more rows than any number of tiles has.
    """
    far = math.sqrt(2.0 * rows)
    least, most = max(0, int((rows - 4 * far) / tile)), math.ceil((rows + 4 * far) / tile)
    return least + sum([math.erfc((tiles * tile - rows) / far) / 2.0 for tiles in range(least, most)])


def misaligned(loss: float, m: int, n: int, k: int) -> float:
    """Return the factor on the time of a matrix product whose sizes are not all divisible by 64 elements: 1, plus
    `loss` for each halving of the largest power of two (up to 64) that divides m, n and k."""
    divisor = math.gcd(math.gcd(m, n, k), ALIGNED)
    return 1.0 + loss * math.log2(ALIGNED / (divisor & -divisor))


@dataclass(frozen=True, slots=True, kw_only=True)
class Matmul:
    """Rates of matrix products in one number type: the nominal peak, and the achieved rate.

    Matrix products run at rate(m, n, k, batch) = R * x / (x + x0) with the square-equivalent edge x = (batch * m * n *
    k)^(1/3), R = `matmul_flops_per_s` and x0 = `matmul_half_edge` (the edge at which half of R is achieved). R and x0
    are fitted to square matrix products; the model assumes that other shapes run as fast as a square product of equal
    work. If the device has `tiles`, the wave model replaces x0: R is then the rate of full waves, of
    `num_compute_units` tiles each. Sizes not divisible by 64 elements cost `misaligned` for each halving (see the
    function of that name).
    """

    peak_flops_per_s: Annotated[Positive, SOURCED]
    matmul_flops_per_s: Annotated[Positive, SOURCED]
    matmul_half_edge: Annotated[NotNegative, SOURCED]
    tiles: Annotated[Tiles | None, Derived(None)] = None
    num_compute_units: Annotated[int, Derived(1)] = 1
    misaligned: Annotated[float, Derived(0.0)] = 0.0

    def rate(self, m: int, n: int, k: int, batch: int = 1, by_chance: bool = False) -> float:
        """Return the achieved flop/s of `batch` matrix products (m x k)(k x n), of 2*m*n*k flops each. `by_chance`: as
        for `Tiles.slowdown`."""
        full = self.matmul_flops_per_s / misaligned(self.misaligned, m, n, k)
        if self.tiles is not None:
            return full / self.tiles.slowdown(m, n, k, batch, self.num_compute_units, by_chance)
        edge = math.cbrt(batch * m * n * k)
        return full * edge / (edge + self.matmul_half_edge)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulForms:
    """Factors on the rate of `Matmul` by the BLAS form (transposition of the operands) of a linear module's matrix
    product.

    Forms have their BLAS (column-major) names, for weights stored as [outputs, inputs]: the forward product is `tn`,
    that for the gradient of the inputs `nn`, that for the gradient of the weights `nt`. If products are `tuned`, the
    forward product and that for the gradient of the inputs run in their fastest form, found before the training step,
    as in AxoNN (axonn-ai/axonn, branch add-timers-gordon-bell); the time to transpose an operand is not counted.
    """

    tn: Annotated[Positive, SOURCED] = 1.0
    nn: Annotated[Positive, SOURCED] = 1.0
    nt: Annotated[Positive, SOURCED] = 1.0
    tuned: Annotated[bool, Switch(), SOURCED] = False

    def factor(self, form: Literal["tn", "nn", "nt"] | None) -> float:
        """Return the factor on the rate of a matrix product of that BLAS form; 1 if `form` is None."""
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
    """One device: a GPU, or a GCD of a GPU package. Rates of 16-bit matrix products are always known, those of wider
    number types if the machine's file has them.

    `speed_sd`: relative standard deviation of speed between the devices of the machine; `call_sd`: relative standard
    deviation of a kernel's time between launches on one device; `matmul_sd`: standard deviation of the natural
    logarithm of measured matrix-product rates around the formula of `Matmul`; each is 0 if the file has none. `codecs`:
    encoding and decoding speeds by codec name (`codecs.timed_codecs`), for the codecs in the file.
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
    mxfp8: Matmul | None = None
    nvfp4: Matmul | None = None
    fp32: Matmul | None = None
    fp64: Matmul | None = None
    matmul_forms: MatmulForms = MatmulForms()
    tiles: Tiles | None = None
    misaligned: Annotated[NotNegative, SOURCED] = 0.0  # see `kernels.misaligned`
    persistent: Annotated[bool, Switch(), SOURCED] = False  # the library's products: see `Kernels`
    grouped: Annotated[Share, SOURCED] = 1.0  # of the rate of 16-bit products, what PyTorch's grouped ones reach
    attention: Mapping[AttentionKernel, Annotated[Positive, SOURCED]] = field(default_factory=dict, hash=False)
    codecs: Mapping[Annotated[str, Names(timed_codecs)], CodecSpeeds] = field(default_factory=dict, hash=False)

    def matmul(self, dtype: str) -> Matmul | None:
        """Return the rates of matrix products of a number type; None if the machine's file has none."""
        if dtype in ("fp16", "bf16"):
            return Matmul(
                peak_flops_per_s=self.peak_flops_per_s,
                matmul_flops_per_s=self.matmul_flops_per_s,
                matmul_half_edge=self.matmul_half_edge,
                tiles=self.tiles,
                num_compute_units=self.num_compute_units,
                misaligned=self.misaligned,
            )
        given = {"nvfp4": self.nvfp4, "mxfp8": self.mxfp8, "fp8": self.fp8, "fp32": self.fp32, "fp64": self.fp64}
        one, times = given.get(dtype), NARROWER.get(dtype)
        if one is None or times is None:
            return one
        tiles = None if self.tiles is None else self.tiles.of_narrower(times)
        return replace(one, tiles=tiles, num_compute_units=self.num_compute_units)

    def matmul_rate(self, m: int, n: int, k: int, batch: int = 1) -> float:
        """Return the achieved flop/s of `batch` matrix products (m x k)(k x n) of 16-bit numbers, of 2*m*n*k flops
        each."""
        narrow = self.matmul("fp16")
        assert narrow is not None, "of 16-bit numbers every machine has rates"
        return narrow.rate(m, n, k, batch)

    def roofline_s(self, math_s: float, num_bytes: float) -> float:
        """Return the roofline time in seconds: the longer of `math_s` seconds of arithmetic and the time to move
        `num_bytes` through memory."""
        return maximum(math_s, num_bytes / (self.hbm_bytes_per_s * self.hbm_share))

    def kernel_s(self, math_s: float, num_bytes: float, speed: float = 1.0) -> float:
        """Return the time of a kernel in seconds: the gap before its launch, plus its roofline time on a device of
        `speed` times the nominal speed."""
        return self.kernel_gap_s + self.roofline_s(math_s, num_bytes) / speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Model of the host process of one rank: seconds for each module's hook, and for the forward and the backward of a
    layer of experts, whose numbers of rows it waits for (`experts_s`, `experts_backward_s`; of a stack).
    `copy_bytes_per_s`: rate of a device's copies to the host's memory, and at the same time back from it, while all
    devices of the node copy (0: unknown)."""

    hook_s: Annotated[NotNegative, SOURCED]
    copy_bytes_per_s: Annotated[NotNegative, SOURCED] = 0.0
    experts_s: Annotated[NotNegative, SOURCED] = 0.0
    experts_backward_s: Annotated[NotNegative, SOURCED] = 0.0
