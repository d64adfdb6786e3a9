"""Predictor of matrix-product (GEMM) rates, and an upper bound on training rates.

Published training rates are compared with the bound and never fitted: a rate above the bound would refute the model.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from simfrontier.answers.accuracy.residual import NotCovered, Prediction, around, unknown_name
from simfrontier.core.collectives import load_library
from simfrontier.core.cost import price
from simfrontier.core.dtypes import DTYPE_BYTES
from simfrontier.core.machine import AttentionKernel, Machine, catalog, is_machine, machine_named
from simfrontier.core.plan import FAMILIES, Engine, build, make_plan
from simfrontier.core.program import Compute, Mesh, is_wait, phase_of
from simfrontier.core.workload import MODELS, GptShape, gpt, neox_flops
from simfrontier.inputs.measured import KernelRow, RateRow

BYTES: Final = DTYPE_BYTES["bf16"]
NARROW: Final = ("bf16", "fp16", "16-bit")
TYPICAL: Final = ("typical", "median", "reference")
MICRO_BATCH: Final = 64  # sequences at once on one device, a large one; 256 add up to 5 %
# What the law of matrix products was fitted to, by machine: (edge, start of the source).
FITTED_EDGES: Final = {
    "frontier": ((3200, "eth-cscs"), (6400, "eth-cscs"), (12800, "eth-cscs"), (32768, "hpcgroup")),
    "perlmutter": ((32768, "hpcgroup"),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedRate:
    """A published training rate and the upper bound of the model, both in flop/s per device; `holds`: whether the
    published rate is below the bound.
    """

    row: RateRow
    shape: GptShape
    published_flops_per_s: float
    bound_flops_per_s: float

    @property
    def holds(self) -> bool:
        return self.published_flops_per_s <= self.bound_flops_per_s

    @property
    def share(self) -> float:
        """Published rate divided by the upper bound."""
        return self.published_flops_per_s / self.bound_flops_per_s


def gemm_flops_per_s(machine: Machine, m: int, n: int, k: int) -> float:
    """Return the rate of one matrix product (m x k)(k x n) of 16-bit numbers on one device, priced as in the simulator:
    the slower of the arithmetic and moving each operand once, plus the gap before the kernel.
    """
    device = machine.device
    flops = 2.0 * m * n * k
    return flops / device.kernel_s(flops / device.matmul_rate(m, n, k), BYTES * (m * k + k * n + m * n))


def gemm_sd(machine: Machine) -> float:
    """Return the standard deviation of the logarithm of a measured GEMM rate: model error and variation between
    devices.
    """
    return math.hypot(machine.device.matmul_sd, machine.device.speed_sd)


def predict_rate(row: RateRow) -> Prediction | NotCovered:
    """Return the time of the row's matrix product on a nominal device with its 90 % interval, or the reason why there
    is none.
    """
    if row.what != "matmul":
        return NotCovered(reason="a rate of training is held against a bound (training_bound)")
    if not is_machine(row.machine):
        return unknown_name(f"no machine {row.machine!r}", row.machine, catalog())
    if row.m is None or row.n is None or row.k is None:
        return NotCovered(reason="the shape of the product is not told")
    if row.statistic not in TYPICAL:
        return NotCovered(
            reason=f"{row.statistic}: a typical device is predicted; the spread (speed_sd) was read off these"
        )
    if row.dtype not in NARROW:
        return NotCovered(reason=f"products of {row.dtype} numbers; those of 16-bit ones are predicted")
    machine = machine_named(row.machine)
    return around(2.0 * row.m * row.n * row.k / gemm_flops_per_s(machine, row.m, row.n, row.k), gemm_sd(machine))


def rate_fitted(row: RateRow) -> bool:
    """Return whether the GEMM model was fitted to this row."""
    if row.what != "matmul" or row.statistic not in TYPICAL:
        return False
    edges = FITTED_EDGES.get(row.machine, ())
    return any(row.m == row.n == row.k == edge and row.source.startswith(source) for edge, source in edges)


def training_bound(row: RateRow) -> BoundedRate | NotCovered:
    """Return a published training rate with the upper bound for its machine, or the reason why they cannot be compared.

    The model shape is that of the catalog for this number of parameters (in billions); if the paper does not state its
    own shape, the two are assumed to be equal.
    """
    if not is_machine(row.machine):
        return unknown_name(f"no machine {row.machine!r}", row.machine, catalog())
    machine = machine_named(row.machine)
    published = row.value * machine.device.peak_flops_per_s if row.quantity == "share_of_peak" else row.flops_per_s
    if published is None and row.quantity == "machine_flops_per_s":
        return NotCovered(reason="machine_flops_per_s without a number of devices is no rate of one")
    if published is None:
        return NotCovered(reason=f"{row.quantity} is a ratio of two runs; no rate of either is told")
    billions = re.match(r"(\d+)B\b", row.model)
    shape = MODELS.get(f"gpt-{billions[1]}b") if billions is not None else None
    if not isinstance(shape, GptShape):
        return NotCovered(reason=f"layers and hidden size of {row.model!r} are not told")
    bound = training_flops_per_s(machine, shape)
    return BoundedRate(row=row, shape=shape, published_flops_per_s=published, bound_flops_per_s=bound)


@lru_cache(maxsize=64)
def training_flops_per_s(machine: Machine, shape: GptShape, micro_batch: int = MICRO_BATCH) -> float:
    """Return the flop/s of one device that only computes: one micro-batch through a whole model with recomputed
    forwards, recomputation included in the FLOP count (workload.metric), without communication, host or optimizer time.

    Assumed: `micro_batch` sequences (matrix products of larger micro-batches are faster), the model fits on the device
    (memory is not checked), no matrix product is split, and attention is not fused, so that its scores go through
    memory: a run with fused attention could exceed the bound. A published rate counts as many operations or fewer.
    """
    mesh = Mesh((("node", 1), ("package", 1), ("gcd", 1)))
    plan = make_plan("alone", FAMILIES["ddp"][0](family="ddp"), mesh)
    schedule = build(gpt(shape, micro_batch, checkpointing="full"), plan, mesh, Engine())
    priced = price(schedule, machine, load_library(machine.library))
    seconds = sum(
        priced.of(op).works[0].alone_s
        for call, op in schedule.roles[0].instances()
        if isinstance(op, Compute) and not is_wait(op) and phase_of(call, schedule) != "end"
    )
    return neox_flops(shape, micro_batch, recomputed=True) / seconds


ATTENTION: Final[AttentionKernel] = "flash2"
FUSED_ATTENTION_TYPES: Final = ("bf16", "fp16")  # what fused attention of 16-bit numbers is of


def predict_kernel(row: KernelRow) -> Prediction | NotCovered:
    """Predict the time of the row's kernel on a nominal device, priced as in the simulator from its bytes and, for
    attention, from the machine's FlashAttention-2 rate. The standard deviation is NaN: the variation of such times is
    unknown.
    """
    if not is_machine(row.machine):
        return unknown_name(f"no machine {row.machine!r}", row.machine, catalog())
    device, math_s = machine_named(row.machine).device, 0.0
    if row.flops is not None:
        rate = device.attention.get(ATTENTION)
        if rate is None:
            return NotCovered(reason=f"{row.machine} has no rate of fused attention (device.attention.{ATTENTION})")
        if row.dtype not in FUSED_ATTENTION_TYPES:
            return NotCovered(reason=f"fused attention of {row.dtype} numbers; the machines' rates are of 16-bit ones")
        math_s = row.flops / rate
    return around(device.kernel_s(math_s, row.num_bytes), math.nan)
