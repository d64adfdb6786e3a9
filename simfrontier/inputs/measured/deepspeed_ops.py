"""Names of collectives in DeepSpeed's communication logger, and what it counts as their sizes.

Source: deepspeedai/DeepSpeed, deepspeed/comm/utils.py (get_msg_size_from_args) and deepspeed/comm/comm.py: the size is
that of the argument `tensor`, `tensors`, `input_list` or `input_tensor_list`, so of what a rank puts in. That is one
rank's part for an all-gather and the whole message for all others.
"""

from __future__ import annotations

from typing import Final

from simfrontier.inputs.measured.rows import CallKind

KINDS: Final[dict[str, CallKind]] = {
    "all_gather": "all_gather",
    "all_gather_base": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_reduce": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "inference_all_reduce": "all_reduce",
    "all_to_all": "all_to_all",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
}
LEFT_OUT: Final = "of which no times are taken"


def kind_of_op(name: str) -> CallKind | None:
    """Return the kind of an operation; None if it is no collective of ours. Behind the name a logger in debug mode
    names the function that called it."""
    return KINDS.get(name.partition(" | ")[0].strip())


def whole_bytes(kind: CallKind, num_bytes: int, devices: int) -> int:
    """Return the bytes of the whole message of a call of which DeepSpeed logs `num_bytes`."""
    return num_bytes * devices if kind == "all_gather" else num_bytes
