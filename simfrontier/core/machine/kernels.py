"""What the kernels of a software stack make of a device: attention in one kernel, and how fused the others are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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
