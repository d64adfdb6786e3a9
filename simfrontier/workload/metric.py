"""The GPT-NeoX metric of the training rate: useful operations of a step of a GPT, recomputation counted or not."""

from __future__ import annotations

from simfrontier.workload.gpt_shape import GptShape


def neox_flops(shape: GptShape, samples: int, sequence: int, factor: int) -> float:
    """F = 24 f B s L h² (1 + s/(6h) + V/(16 L h)); f = 4 with activation checkpointing, else 3.

    Source: EleutherAI/gpt-neox megatron/logging.py. `samples` is B, the sequences of one step over all ranks.
    """
    h, layers, vocabulary = shape.hidden, shape.num_layers, shape.vocabulary
    base = 24 * factor * samples * sequence * layers * h * h
    return base * (1 + sequence / (6 * h) + vocabulary / (16 * layers * h))
