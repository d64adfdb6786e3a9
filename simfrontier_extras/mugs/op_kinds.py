"""Mugs' kinds of ops: tokens and features, products, losses, and what keeps queues, memories and the centre."""

from simfrontier.core.program.cost import Traffic, every_operand, picked_rows, replaced_entries
from simfrontier.core.program.op_kind import BACKWARD, ModelKind, Needed, product


def _kind(
    name: str,
    words: str,
    traffic: Traffic = every_operand,
    *,
    has_backward: bool = False,
    has_own_labels: bool = False,
    ends: bool = False,
    is_fused: bool = False,
    has_whole_rows: bool = False,
    needs: tuple[Needed, ...] = (),
) -> ModelKind:
    return ModelKind(
        name=name,
        words=words,
        parts=BACKWARD if has_backward else {},
        traffic=traffic,
        has_own_labels=has_own_labels,
        has_whole_rows=has_whole_rows,
        resizes_labels=True,
        needs=needs,
        is_fused=is_fused,
        ends=ends,
    )


ADDS = (
    _kind("positions", "positions of tokens", has_backward=True, has_own_labels=True),
    _kind("pool", "means of tokens", has_backward=True),
    _kind("join", "joining of crops", has_backward=True),
    _kind("unit", "normalising of features", has_backward=True, has_whole_rows=True, needs=("operands",)),
    product("similarity", "similarities to a memory", {}),
    _kind("nearest", "nearest rows of a memory", picked_rows, has_backward=True),
    _kind("first", "first tokens", picked_rows, has_backward=True),
    _kind("pick", "rows for a memory", picked_rows),
    _kind("weight_norm", "lengths of prototypes", is_fused=True),
    product("prototypes", "scores of prototypes", {"dquery": 0, "wgrad": 1}),
    product("pairs", "scores of pairs", {"dquery": 0}),
    _kind("contrast", "contrastive losses", ends=True),
    _kind("cluster", "the loss of prototypes", ends=True),
    _kind("centre_sum", "sums for the centre"),
    _kind("centre", "the centre"),
    _kind("enqueue", "filling of queues", replaced_entries, has_own_labels=True),
)
