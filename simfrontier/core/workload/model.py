"""The workload of any shape."""

from __future__ import annotations

from dataclasses import replace

from simfrontier.base.errors import InputError
from simfrontier.core.workload.graph import Attention, Checkpointing, Optimizer, Workload
from simfrontier.core.workload.graph_builder import Softmax
from simfrontier.core.workload.precision import Precision, find_precision
from simfrontier.core.workload.shape import Shape


def workload_of(
    shape: Shape,
    batch: int,
    checkpointing: Checkpointing,
    precision: str | Precision = "fp16",
    attention: Attention = "plain",
    softmax: Softmax = "fused",
    checkpoint_every: int = 1,
    optimizer: Optimizer = "adam",
) -> Workload:
    """The graph of one micro-batch of `batch` samples over all data-parallel ranks together, and what steps its
    weights. Raises InputError."""
    types = find_precision(precision) if isinstance(precision, str) else precision
    work = shape.workload(batch, checkpointing, types.name, attention, softmax)
    if (types, optimizer) != (work.precision, work.optimizer):
        work = replace(work, precision=types, optimizer=optimizer)
    if checkpoint_every != 1 and checkpointing != "full":
        raise InputError(
            f'model.checkpoint_every = {checkpoint_every}: of layers, which checkpointing = "{checkpointing}" is not; '
            'allowed: 1, or checkpointing = "full"'
        )
    return work if checkpoint_every == 1 else replace(work, checkpoint_every=checkpoint_every)
