"""The names in a schedule's file: how they are made, and the only place that reads what a tensor or an op is
from its name (names of ops are in opnames). Schedules that are built carry the same facts as fields.

docs/schedule.md has the grammar. A name that follows no rule has no such facts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, cast

from simfrontier.opnames import NO_MODULE, OpName, op_named
from simfrontier.schedule.ir import Stage, Tensor
from simfrontier.schedule.kinds import MODEL_KINDS

AGAIN, PARTIAL = ".again", ".partial"
_GATHERED: Final = re.compile(r"\.(?:full(?:\.head)?|gathered)\.(forward|recompute|backward)(?=\.|$)")
_FORM: Final = re.compile(r"(\.again|\.gathered\.(forward|recompute|backward)|\.partial)+$")


# ── how names are made ──


def gathered_name(weight: str, stage: Stage, use: str = "") -> str:
    """A weight as its ranks hold it together for one pass, and for one `use` of several in that pass."""
    return f"{weight}.full{use}.{stage}"


def value_name(value: str, again: bool = False, stage: Stage | None = None, is_partial: bool = False) -> str:
    """A value: computed `again`, in the placement of a reader in one pass (`stage`), or still to be summed."""
    return value + AGAIN * again + (f".gathered.{stage}" if stage else "") + PARTIAL * is_partial


def buffer_name(end: str, suffix: str) -> str:
    """A buffer for a value that is being moved to a tensor."""
    return f"{end}.{suffix}"


# ── how names are read ──


def named_op(kind: str, name: str) -> OpName:
    """The facts in the name of an op of the model."""
    return op_named(name) if kind in MODEL_KINDS else NO_MODULE


def tensors_as_named(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with the facts in their names as fields."""
    weights = {name for name, tensor in tensors.items() if tensor.role == "weight"}
    return {
        name: replace(
            tensor,
            weight=_weight_of(tensor, weights),
            form_of=_value_of(tensor, tensors),
            recomputes=name.replace(AGAIN, "") if AGAIN in name and tensor.role != "token" else None,
            stage=_stage_of(tensor),
        )
        for name, tensor in tensors.items()
    }


def _weight_of(tensor: Tensor, weights: set[str]) -> str | None:
    """The longest dotted prefix of its name that is a weight: `qkv.weight.grad.raw` and
    `qkv.weight.full.forward.sent0` belong to `qkv.weight`; a token belongs to none."""
    name, dot = tensor.name, "."
    while dot and name not in weights:
        name, dot, _ = name.rpartition(".")
    return name if dot and tensor.role != "token" else None


def _value_of(tensor: Tensor, tensors: Mapping[str, Tensor]) -> str | None:
    """The shortest dotted prefix of its name that is a tensor of its role and shape: `x.again.partial` is a form of
    `x`; where there is none, what is left without `again`, `gathered` and `partial`."""
    if tensor.role == "token":
        return None
    parts = tensor.name.split(".")
    for end in range(1, len(parts)):
        short = ".".join(parts[:end])
        other = tensors.get(short)
        if other is not None and (other.role, other.shape) == (tensor.role, tensor.shape):
            return short
    bare = _FORM.sub("", tensor.name)
    return bare if bare != tensor.name and tensor.role == "activation" else None


def _stage_of(tensor: Tensor) -> Stage | None:
    match = None if tensor.role == "token" else _GATHERED.search(tensor.name)
    return cast(Stage, match[1]) if match else None
