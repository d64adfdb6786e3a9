"""The workload of any shape."""

from __future__ import annotations

from dataclasses import replace

from simfrontier.errors import InputError
from simfrontier.workload.gpt_model import Attention
from simfrontier.workload.graph import Checkpointing, Workload
from simfrontier.workload.graph_builder import Softmax
from simfrontier.workload.shape import Shape


def workload_of(
    shape: Shape,
    batch: int,
    checkpointing: Checkpointing,
    precision: str = "fp16",
    attention: Attention = "plain",
    softmax: Softmax = "fused",
    gradients: str | None = None,
    checkpoint_every: int = 1,
) -> Workload:
    """The graph of one micro-batch of `batch` samples over all data-parallel ranks together, `gradients` added up in
    that type (None: the model's own). Raises InputError."""
    work = shape.workload(batch, checkpointing, precision, attention, softmax)
    if gradients is not None:
        work = replace(work, precision=work.precision.adding_in(gradients))
    if checkpoint_every != 1 and checkpointing != "full":
        raise InputError(
            f'model.checkpoint_every = {checkpoint_every}: of layers, which checkpointing = "{checkpointing}" is not; '
            'allowed: 1, or checkpointing = "full"'
        )
    return work if checkpoint_every == 1 else replace(work, checkpoint_every=checkpoint_every)
