"""Work element by element, or row by row."""

from typing import Final

from simfrontier.schedule.op_kind import ModelKind

KINDS: Final = (
    ModelKind(name="gelu", words="GELU", needs=("operands",)),
    ModelKind(name="swiglu", words="SwiGLU", is_gated=True, needs=("operands",)),
    ModelKind(name="softmax", words="softmax", has_passes=True, needs=("results",)),
    ModelKind(name="rotary", words="rotary embeddings", needs=()),
    ModelKind(name="add", words="additions", adds_values=True, sums_gradients=True),
    ModelKind(name="cast", words="casts"),
    ModelKind(name="dropout", words="dropout", writes_mask=True),
)
