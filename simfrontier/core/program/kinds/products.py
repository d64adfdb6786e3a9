"""Matrix products, and attention, whose fused kernel is two of them."""

from collections.abc import Mapping
from typing import Final

from simfrontier.core.program import traffic
from simfrontier.core.program.op_kind import BACKWARD, ModelKind
from simfrontier.core.program.opnames import Part


def product(name: str, words: str, parts: Mapping[Part, int | None]) -> ModelKind:
    """Return the kind of a product of two factors, each of whose gradients is a product with the other one."""
    return ModelKind(
        name=name,
        words=words,
        parts=parts,
        traffic=traffic.product,
        products={},
        needs=("factors",),
        is_alike=True,
        in_pieces=True,
    )


MATMUL: Final = product("matmul", "matrix products", {"dgrad": 0, "wgrad": 1})  # of values and a weight
KINDS: Final = (
    MATMUL,
    product("scores", "scores of attention", {"dquery": 0, "dkey": 1}),
    product("context", "sums of values by attention", {"dprobabilities": 0, "dvalue": 1}),
    ModelKind(
        name="attention",
        words="attention",
        has_whole_rows=True,
        parts=BACKWARD,
        traffic=traffic.product,
        products={1: 2, 3: 5},  # the forward, and the backward with the scores again
        needs=("operands", "results"),
    ),
)
