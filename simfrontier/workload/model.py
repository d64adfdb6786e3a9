"""The workload of any shape: a GPT or an MLP."""

from __future__ import annotations

from simfrontier.workload.catalog import MlpShape, Shape
from simfrontier.workload.gpt import Attention, gpt
from simfrontier.workload.graph import Workload
from simfrontier.workload.mlp import mlp


def workload_of(
    shape: Shape, batch: int, checkpointing: bool, precision: str = "fp16", attention: Attention = "plain"
) -> Workload:
    """The graph of one micro-batch of `batch` samples over all data-parallel ranks together. Raises InputError."""
    if isinstance(shape, MlpShape):
        return mlp(shape, batch, checkpointing, precision)
    return gpt(shape, batch, checkpointing, precision=precision, attention=attention)
