"""The workload of any shape: a GPT, an MLP or a Mugs run."""

from __future__ import annotations

from simfrontier.workload.catalog import MlpShape, Shape
from simfrontier.workload.gpt_model import Attention, gpt
from simfrontier.workload.graph import Workload
from simfrontier.workload.graph_builder import Softmax
from simfrontier.workload.mlp_model import mlp
from simfrontier.workload.mugs_model import mugs
from simfrontier.workload.mugs_shape import MugsShape


def workload_of(
    shape: Shape,
    batch: int,
    checkpointing: bool,
    precision: str = "fp16",
    attention: Attention = "plain",
    softmax: Softmax = "fused",
) -> Workload:
    """The graph of one micro-batch of `batch` samples over all data-parallel ranks together. Raises InputError."""
    if isinstance(shape, MugsShape):
        return mugs(shape, batch, precision, attention, softmax)
    if isinstance(shape, MlpShape):
        return mlp(shape, batch, checkpointing, precision, softmax)
    return gpt(shape, batch, checkpointing, precision=precision, attention=attention, softmax=softmax)
