"""The kinds of compute ops: work of the model, and local ops that only move, code or add what is there."""

from __future__ import annotations

from typing import Final, get_args

from simfrontier.schedule.ir import CollectiveKind, Exchange, TensorRole, Via

MODEL_KINDS: Final = frozenset(
    {
        "matmul",
        "attention",
        "norm",
        "norm_sums",
        "softmax",
        "gelu",
        "add",
        "lookup",
        "scatter",
        "cast",
        "loss",
        "loss_max",
        "loss_sums",
    }
)  # cut by the op's split, so that the placements of their operands follow
COPY_KINDS: Final = frozenset({"slice", "permute", "encode", "decode"})  # reads[i] becomes writes[i]
ADD_KINDS: Final = frozenset({"accumulate", "decode_sum"})  # reads[i] is added to accumulates[i] (decode_sum may write)
MAX_KINDS: Final = frozenset({"loss_max"})  # a label that is cut and not in the result leaves its maximum, not a sum
STEP_KINDS: Final = frozenset({"norm2", "adam", "hook"})
COMPUTE_KINDS: Final = MODEL_KINDS | COPY_KINDS | ADD_KINDS | STEP_KINDS
COLLECTIVE_KINDS: Final = frozenset(get_args(CollectiveKind))
OP_KINDS: Final = COMPUTE_KINDS | COLLECTIVE_KINDS | {Exchange.kind}
TENSOR_ROLES: Final = frozenset(get_args(TensorRole))
VIAS: Final = frozenset(get_args(Via))
