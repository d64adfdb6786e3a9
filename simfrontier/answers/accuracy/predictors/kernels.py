"""Predictor of kernels: those without matrix products, and fused attention."""

from __future__ import annotations

import math
from typing import Final

from simfrontier.answers.accuracy.residual import NotCovered, Prediction, around, unknown_name
from simfrontier.core.machine import AttentionKernel, catalog, is_machine, machine_named
from simfrontier.inputs.measured import KernelRow

ATTENTION: Final[AttentionKernel] = "flash2"
NARROW: Final = ("bf16", "fp16")  # what fused attention of 16-bit numbers is of


def predict_kernel(row: KernelRow) -> Prediction | NotCovered:
    """The time of the row's kernel on a typical device, as the simulator prices one that moves so many bytes, and
    attention by the machine's rate of FlashAttention-2; nothing is known of how such times vary."""
    if not is_machine(row.machine):
        return unknown_name(f"no machine {row.machine!r}", row.machine, catalog())
    device, math_s = machine_named(row.machine).device, 0.0
    if row.flops is not None:
        rate = device.attention.get(ATTENTION)
        if rate is None:
            return NotCovered(reason=f"{row.machine} has no rate of fused attention (device.attention.{ATTENTION})")
        if row.dtype not in NARROW:
            return NotCovered(reason=f"fused attention of {row.dtype} numbers; the machines' rates are of 16-bit ones")
        math_s = row.flops / rate
    return around(device.kernel_s(math_s, row.num_bytes), math.nan)
