"""Ops of tests by the texts of their names: `teacher/qkv.dgrad` as the module, part and streams that it is made of."""

from __future__ import annotations

from typing import cast

from simfrontier.core.program import KINDS, NO_MODULE, ModelKind, OpName, Part


def named_op(kind: str, name: str) -> OpName:
    """What an op of that name computes; of no module where it is none of the model's."""
    of = KINDS.get(kind)
    if not isinstance(of, ModelKind):
        return NO_MODULE
    *streams, last = name.split("/")
    bare = last.removesuffix(".sums")
    module, _, part = bare.rpartition(".")
    if not module or part not in of.parts:
        module, part = bare, ""
    return OpName(module, cast(Part, part) or None, of.sums, tuple(streams))
