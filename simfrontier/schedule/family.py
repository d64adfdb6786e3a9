"""Which weight a tensor belongs to: `qkv.weight.grad.raw` and `qkv.weight.full.forward.sent0` belong to
`qkv.weight`."""

from __future__ import annotations

from collections.abc import Mapping

from simfrontier.schedule.ir import Tensor


def weights_of(tensors: Mapping[str, Tensor]) -> dict[str, str | None]:
    """For each tensor its weight: the longest dotted prefix of its name that is a tensor of role weight, or None;
    a token belongs to none."""
    weights = {name for name, tensor in tensors.items() if tensor.role == "weight"}
    return {name: None if t.role == "token" else _weight_of(name, weights) for name, t in tensors.items()}


def _weight_of(name: str, weights: set[str]) -> str | None:
    while name not in weights:
        name, dot, _ = name.rpartition(".")
        if not dot:
            return None
    return name
