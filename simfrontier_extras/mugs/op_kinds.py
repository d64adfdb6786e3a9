"""Mugs' kinds of ops: tokens and features, losses, and what keeps queues, memories and the centre."""

from simfrontier.schedule import ModelKind, Traffic, every_operand, picked_rows, replaced_entries


def _kind(
    name: str,
    words: str,
    traffic: Traffic = every_operand,
    *,
    has_own_labels: bool = False,
    ends: bool = False,
    is_fused: bool = False,
) -> ModelKind:
    return ModelKind(
        name=name,
        words=words,
        traffic=traffic,
        has_own_labels=has_own_labels,
        resizes_labels=True,
        needs=(),
        is_fused=is_fused,
        ends=ends,
    )


ADDS = (
    _kind("positions", "positions of tokens", has_own_labels=True),
    _kind("pool", "means of tokens"),
    _kind("join", "joining of crops"),
    _kind("unit", "normalising of features"),
    _kind("nearest", "nearest rows of a memory", picked_rows),
    _kind("first", "first tokens", picked_rows),
    _kind("pick", "rows for a memory", picked_rows),
    _kind("weight_norm", "lengths of prototypes", is_fused=True),
    _kind("contrast", "contrastive losses", ends=True),
    _kind("cluster", "the loss of prototypes", ends=True),
    _kind("centre_sum", "sums for the centre"),
    _kind("centre", "the centre"),
    _kind("enqueue", "filling of queues", replaced_entries, has_own_labels=True),
)
