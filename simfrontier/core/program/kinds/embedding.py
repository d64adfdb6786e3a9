"""Look-ups in the tables of tokens and positions."""

from typing import Final

from simfrontier.core.program import traffic
from simfrontier.core.program.op_kind import ModelKind

KINDS: Final = (
    ModelKind(
        name="lookup", words="embedding look-ups", traffic=traffic.as_written, reads_indices=True, gradient="scatter"
    ),
    ModelKind(
        name="scatter",
        words="gradients of the embedding",
        parts={"wgrad": None},
        traffic=traffic.added_rows,
        reads_indices=True,
        needs=("operands",),
        gradients_last=True,
    ),
    ModelKind(name="add_positions", words="positions", parts={"wgrad": None}, needs=(), sums_gradients=True),
)
