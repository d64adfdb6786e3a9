"""Sound schedules of all families, small enough to be trained on ranks in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from simfrontier.base.extras import added
from simfrontier.core.program import Schedule
from simfrontier_real.train.training_settings import Adam, TrainingSettings
from tests.mutated.case import AddedCase, Case
from tests.real.grids import axonn, megatron
from tests.real.schedules import ENGINES, EXACT, QUANTISED, schedule

MESH: Final = (2, 1, 2)
INT: Final = "dp=int8:64, tp=int8:64, pp=int4:64, zero=int8:64"
# Clipping binds, so that the norm counts, and Adam's epsilon is far above what a clipped gradient has: an update is in
# proportion to the gradient, of which Adam would else hide the scale.
TRAINING: Final = TrainingSettings(steps=2, adam=Adam(learning_rate=0.1, epsilon=1e-2, clip=0.05))


def _zero(plan: tuple[str, dict[str, Any]], engine: str = "tight", **how: Any) -> Callable[[], Schedule]:
    return lambda: schedule(plan, MESH, 2, engine=ENGINES[engine], **how)


def _compressed(compression: str, **keys: Any) -> Callable[[], Schedule]:
    keys = {"data": "zero1", "precision": "fp32", "compress_from": 0, **keys}
    return lambda: megatron(2, 2, 1, compression=compression, **keys).schedule


CASES: Final[dict[str, Case]] = {
    **{family: Case(_zero(EXACT[family])) for family in ("ddp", "zero1", "zero2", "zero3", "hsdp")},
    "zero3 lamb": Case(_zero(EXACT["zero3"], optimizer="lamb")),
    "zeropp": Case(_zero(EXACT["zeropp"])),
    "zero-topo": Case(_zero(EXACT["zero-topo"], "by layer")),
    "zeropp int8": Case(_zero(QUANTISED["qwz and qgz"], precision="fp32"), 1e-5),
    "zero-topo int8": Case(_zero(QUANTISED["quantised topo"], precision="fp32"), 1e-5),
    "lattice": Case(_zero(EXACT["odd order"], "default")),
    "lattice copy": Case(_zero(EXACT["copy"], "no overlap", model="mlp")),
    "axonn": Case(lambda: axonn(2, 1, 2).schedule),
    "axonn zero1 pipeline": Case(lambda: axonn(2, 1, 1, 1, pipeline=2, data="zero1", shape="tied").schedule),
    "tensor": Case(lambda: megatron(2, 1, 2, data="zero1").schedule),
    "sequence": Case(lambda: megatron(2, 1, 2, sequence_parallel=True).schedule),
    "pieces": Case(lambda: megatron(2, 1, 2, sequence_parallel=True, product_pieces=2).schedule),
    "pipeline 1f1b": Case(lambda: megatron(1, 2, 2, shape="tied").schedule),
    "pipeline lamb": Case(lambda: megatron(2, 2, optimizer="lamb", shape="tied").schedule),
    "pipeline gpipe": Case(lambda: megatron(2, 2, order="gpipe", sequence_parallel=True).schedule),
    "pipeline interleaved": Case(lambda: megatron(1, 2, 2, order="interleaved", chunks=2).schedule),
    "compressed int8": Case(_compressed(INT, data="ddp"), 1e-4),
    "compressed zfp": Case(_compressed("ZHybrid:8/16"), 1e-4),
    "compressed mpc": Case(_compressed("naive-mpc"), 1e-5),
    "lowered zero3": Case(_zero(EXACT["zero3"]), lowered=True),
    "lowered pieces": Case(
        lambda: megatron(2, 2, sequence_parallel=True, product_pieces=2, batch_first=True).schedule, lowered=True
    ),
    "lowered tensor": Case(lambda: megatron(2, 2, shape="parallel").schedule, lowered=True),
    **{one.name: one.case for one in added("tests.mutated", AddedCase)},
}
