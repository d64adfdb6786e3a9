"""Small schedules of every family for the faults to be put in; nodes, packages and layers where each has its moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from simfrontier.base.extras import added
from simfrontier.core.program import Schedule
from tests.real.grids import axonn, megatron
from tests.real.mutation.case import AddedCase
from tests.real.schedules import ENGINES, EXACT, QUANTISED, STALE, schedule

_FOUR: Final = (2, 1, 2)
_PACKAGES: Final = (1, 2, 2)


def _plan(name: str, precision: str = "fp64", **how: Any) -> Callable[[], Schedule]:
    plans = {**EXACT, **QUANTISED, "stale": STALE}
    sizes = _PACKAGES if name == "int8 copy" else _FOUR
    return lambda: schedule(plans[name], sizes, 2, engine=ENGINES["tight"], precision=precision, **how)


def _compressed(policy: str, tensor: int, pipeline: int) -> Callable[[], Schedule]:
    how = {"data": "zero1", "precision": "fp32", "compression": policy, "compress_from": 0}
    return lambda: megatron(tensor, pipeline, 2, **how).schedule


_ADDED: Final = added("tests.faults", AddedCase)
EPSILONS: Final = {one.name: one.epsilon for one in _ADDED}  # Adam's, of cases that need another
SAME: Final[dict[str, Callable[[], Schedule]]] = {  # equal to the unsharded model but for rounding
    **{name: _plan(name) for name in ("ddp", "zero1", "zero2", "zero3", "hsdp", "zeropp", "zero-topo")},
    "zero1 scattered": _plan("zero1 scattered"),
    "zero1 next": _plan("zero1 next"),
    "zero2 scattered": _plan("zero2 scattered"),
    "lattice, three hops": _plan("three hops"),
    "lattice, copy": _plan("copy"),
    "lattice, odd order": _plan("odd order"),
    "zero3 fp32": _plan("zero3", "fp32"),
    "zero3, lamb": _plan("zero3", optimizer="lamb"),
    "stages, lamb": lambda: megatron(2, 2, 1, optimizer="lamb", shape="tied").schedule,
    "axonn 2×2×1, 2 replicas": lambda: axonn(2, 2, 1, 2).schedule,
    "axonn, pipeline, zero1": lambda: axonn(1, 2, 1, 2, pipeline=2, data="zero1").schedule,
    "megatron 2×2×2, zero1": lambda: megatron(2, 2, 2, data="zero1").schedule,
    "megatron 2×1×2, fp32": lambda: megatron(2, 1, 2, precision="fp32").schedule,
    "sequence parallel": lambda: megatron(2, 1, 2, sequence_parallel=True).schedule,
    "in pieces": lambda: megatron(2, 1, 2, sequence_parallel=True, product_pieces=2, batch_first=True).schedule,
    "interleaved": lambda: megatron(1, 2, 1, order="interleaved", chunks=2).schedule,
    "tied stages": lambda: megatron(1, 2, 2, shape="tied").schedule,
    "compressed, mpc": _compressed("naive-mpc", 2, 1),
    **{one.name: one.make for one in _ADDED},
}
LOSSY: Final[dict[str, Callable[[], Schedule]]] = {  # codecs, a narrow type or old weights lose something
    "compressed, zfp:24": _compressed("naive-zfp:24", 2, 1),
    "compressed, zfp:16, stages": _compressed("naive-zfp:16", 1, 2),
    "compressed, ZHybrid": _compressed("ZHybrid:8/16", 2, 1),
    "compressed, int8 and int4, stages": _compressed("dp=int8:64, pp=int4:64, zero=int8:64", 1, 2),
    "zeropp int8 weights": _plan("qwz", "fp32"),
    "zeropp int4 gradients": _plan("qgz", "fp32"),
    "zeropp int8 and int4": _plan("qwz and qgz", "fp32"),
    "zero-topo int8 and int4": _plan("quantised topo", "fp32"),
    "lattice, int8 copy": _plan("int8 copy", "fp32"),
    "zeropp, old copy": _plan("stale"),
    "zero3 fp16": _plan("zero3", "fp16"),
}
CASES: Final = {**SAME, **LOSSY}
