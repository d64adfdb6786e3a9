"""Matrix products, and attention, whose fused kernel is two of them."""

from typing import Final

from simfrontier.schedule import traffic
from simfrontier.schedule.op_kind import ModelKind

KINDS: Final = (
    ModelKind(
        name="matmul",
        words="matrix products",
        traffic=traffic.product,
        products={},
        needs=("factors",),
        is_alike=True,
        in_pieces=True,
    ),
    ModelKind(
        name="attention",
        words="attention",
        traffic=traffic.product,
        products={1: 2, 3: 5},  # the forward, and the backward with the scores again
        needs=("operands", "results"),
    ),
)
