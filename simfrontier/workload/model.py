"""The workload of any shape."""

from __future__ import annotations

from dataclasses import replace

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
) -> Workload:
    """The graph of one micro-batch of `batch` samples over all data-parallel ranks together, `gradients` added up in
    that type (None: the model's own). Raises InputError."""
    work = shape.workload(batch, checkpointing, precision, attention, softmax)
    return work if gradients is None else replace(work, precision=work.precision.adding_in(gradients))
