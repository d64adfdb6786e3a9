"""The registry of kinds of ops: one value for each kind, by name. No other place lists kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simfrontier.base.extras import added
from simfrontier.core.program.ir import Compute, Op
from simfrontier.core.program.kinds import (
    calls,
    copies,
    embedding,
    loss,
    measured,
    norms,
    optimizer,
    pointwise,
    products,
)
from simfrontier.core.program.op_kind import CopyKind, ModelKind, OpKind, StepKind

KINDS: Final[Mapping[str, OpKind]] = {
    kind.name: kind
    for kind in (
        *products.KINDS,
        *norms.KINDS,
        *pointwise.KINDS,
        *embedding.KINDS,
        *loss.KINDS,
        *copies.KINDS,
        *optimizer.KINDS,
        *calls.KINDS,
        *measured.KINDS,
        *added("op_kinds", ModelKind),
    )
}


def kind_of(op: Op) -> OpKind:
    """The kind of an op."""
    return KINDS[op.kind]


def model_kind(name: str) -> ModelKind:
    """The kind of work of the model that has this name."""
    kind = KINDS[name]
    assert isinstance(kind, ModelKind), name
    return kind


def is_work(op: Op) -> bool:
    """Whether an op is work of the model."""
    return isinstance(KINDS[op.kind], ModelKind)


def is_product(name: str) -> bool:
    """Whether a kind is a product of two matrices; no kind's name is none."""
    kind = KINDS.get(name)
    return isinstance(kind, ModelKind) and kind.products == {}


def is_copy(op: Op) -> bool:
    """Whether an op only moves, codes or adds what is there."""
    return isinstance(op, Compute) and isinstance(KINDS[op.kind], CopyKind)


def renews_weights(op: Op) -> bool:
    """Whether an op of the optimizer writes weights."""
    kind = KINDS[op.kind]
    return isinstance(kind, StepKind) and kind.renews_weights


def writes_mask(op: Op) -> bool:
    """Whether the last of what an op writes is a mask."""
    kind = KINDS[op.kind]
    return isinstance(kind, ModelKind) and kind.writes_mask and len(op.writes) > 1
