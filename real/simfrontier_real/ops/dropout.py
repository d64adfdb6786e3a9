"""Dropout for real: which elements of a value stay, the same for every plan, pass and rank."""

from __future__ import annotations

import zlib
from typing import Any

from simfrontier.core.program import Compute
from simfrontier_real.ops.blocks import block_of
from simfrontier_real.ops.operands import Operands
from simfrontier_real.ops.rank_context import RankContext

RATE = 0.1  # Megatron-LM's default (--hidden-dropout, --attention-dropout)


def mask(name: str, layer: int, micro: int, shape: tuple[int, ...]) -> Any:
    """1 where an element of the whole value stays, as numpy's uint8; every step drops the same."""
    import numpy as np

    numbers = np.random.default_rng([zlib.crc32(name.encode()), layer, micro])
    return (numbers.random(shape) >= RATE).astype(np.uint8)


def dropout(context: RankContext, index: int, op: Compute) -> None:
    """What stays, larger by 1 / (1 - rate), and the mask; backward by that mask."""
    operands, wide = Operands(context, index, op), context.backend.wide
    if operands.is_backward:
        (_, gradient), (_, kept) = operands.activations()
        operands.put(wide(gradient) * kept / (1 - RATE))
        return
    ref = context.program.writes[index][1]
    tensor = context.schedule.tensors[ref.name]
    whole = mask(operands.module, ref.layer, ref.micro, tensor.shape)
    block = block_of(tensor.shape, tensor.placement, context.schedule.mesh, context.at, tensor.name)
    kept = context.backend.array(whole[block].copy(), "uint8")
    operands.put(wide(operands.one()) * kept / (1 - RATE))
    operands.put(kept, 1)
