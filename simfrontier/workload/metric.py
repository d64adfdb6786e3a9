"""The training-rate metrics: useful operations of a step, recomputation counted or not (TFLOPS, and MFU)."""

from __future__ import annotations

from simfrontier.workload.catalog import GptShape, MlpShape, Shape
from simfrontier.workload.mlp_model import mlp
from simfrontier.workload.mugs_model import mugs
from simfrontier.workload.mugs_shape import MugsShape


def step_flops(shape: Shape, samples: int, recomputed: bool) -> float:
    """Operations of one step of `samples` samples over all ranks, with or without recomputed forwards.

    A GPT by the GPT-NeoX formula, others by their own matrix products.
    """
    if isinstance(shape, MugsShape):
        return float(mugs(shape, samples).matmul_flops)
    if isinstance(shape, MlpShape):
        return float(mlp(shape, samples, recomputed).matmul_flops)
    return neox_flops(shape, samples, shape.sequence, 4 if recomputed else 3)


def neox_flops(shape: GptShape, samples: int, sequence: int, factor: int) -> float:
    """F = 24 f B s L h² (1 + s/(6h) + V/(16 L h)); f = 4 with activation checkpointing, else 3.

    Source: EleutherAI/gpt-neox megatron/logging.py. `samples` is B, the sequences of one step over all ranks.
    """
    h, layers, vocabulary = shape.hidden, shape.num_layers, shape.vocabulary
    base = 24 * factor * samples * sequence * layers * h * h
    return base * (1 + sequence / (6 * h) + vocabulary / (16 * layers * h))
