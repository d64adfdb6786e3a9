"""Work element by element, or row by row."""

from typing import Final

from simfrontier.core.program.op_kind import BACKWARD, ModelKind

KINDS: Final = (
    ModelKind(name="gelu", words="GELU", parts=BACKWARD, needs=("operands",)),
    ModelKind(name="swiglu", words="SwiGLU", parts=BACKWARD, is_gated=True, needs=("operands",)),
    ModelKind(
        name="softmax", words="softmax", parts=BACKWARD, has_whole_rows=True, has_passes=True, needs=("results",)
    ),
    ModelKind(name="rotary", words="rotary embeddings", parts=BACKWARD, needs=()),
    ModelKind(name="add", words="additions", parts=BACKWARD, adds_values=True, sums_gradients=True),
    ModelKind(name="cast", words="casts"),
    ModelKind(name="dropout", words="dropout", parts=BACKWARD, writes_mask=True),
)
