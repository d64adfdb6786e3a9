"""Kinds of compute ops (work of the model, and local ops that only move, code or add what is there), and sets of roles
of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from simfrontier.extras import added
from simfrontier.schedule.ir import CollectiveKind, Exchange, TensorRole
from simfrontier.schedule.op_kind import OpKind
from simfrontier.schedule.placement import PartialOp

GRADIENT_ROLES: Final[tuple[TensorRole, ...]] = ("gradient", "accumulator")
LASTING_ROLES: Final[tuple[TensorRole, ...]] = (  # of what lasts from step to step
    *("weight", "copy", "accumulator", "optimizer", "master", "state", "constant"),
)
KINDS_OF_EXTRAS: Final = added("op_kinds", OpKind)
ADDED_KINDS: Final = frozenset(kind.name for kind in KINDS_OF_EXTRAS)
# what ranks that have some of the classes say of their part of a loss
LOSS_PARTS: Final = frozenset(
    {"loss_max", "loss_sums", "loss_own", "loss_exp", "loss_sum", "loss_online", "loss_pairs"}
)
LOSS_KINDS: Final = LOSS_PARTS | {"loss"}
MODEL_KINDS: Final = (
    ADDED_KINDS
    | LOSS_KINDS
    | frozenset(
        {
            "matmul",
            "attention",
            "norm",
            "norm_sums",
            "rmsnorm",
            "rmsnorm_sums",
            "rotary",
            "softmax",
            "gelu",
            "swiglu",
            "add",
            "add_positions",
            "lookup",
            "scatter",
            "cast",
            "dropout",
        }
    )
)  # cut by the op's split, so that the placements of their operands follow
COPY_KINDS: Final = frozenset({"slice", "permute", "encode", "decode", "merge"})  # reads[i] becomes writes[i]
ADD_KINDS: Final = frozenset({"accumulate", "decode_sum"})  # reads[i] is added to accumulates[i] (decode_sum may write)
# what a label that is cut and not in the result leaves to be formed, where it is not a sum
NOT_SUMS: Final[Mapping[str, PartialOp]] = {"loss_max": "max", "loss_online": "merge", "loss_pairs": "merge"}
MOMENT_KINDS: Final = frozenset({"adam", "lamb_update"})  # of the optimizer: read gradients, and renew moments
WEIGHT_KINDS: Final = frozenset({"adam", "lamb"})  # and renew masters and weights
STEP_KINDS: Final = MOMENT_KINDS | WEIGHT_KINDS | {"norm2", "ema", "hook"}
MEASURED: Final = "measured"  # a kernel of a job that was read from its traces: of it the time is known alone
PAUSE: Final = "pause"  # in such a job, time in which nothing runs on a stream: the host has not launched it yet
MEASURED_KINDS: Final = frozenset({MEASURED, PAUSE})
COMPUTE_KINDS: Final = MODEL_KINDS | COPY_KINDS | ADD_KINDS | STEP_KINDS
COLLECTIVE_KINDS: Final = frozenset(get_args(CollectiveKind))
OP_KINDS: Final = COMPUTE_KINDS | COLLECTIVE_KINDS | {Exchange.kind}
TENSOR_ROLES: Final = frozenset(get_args(TensorRole))
