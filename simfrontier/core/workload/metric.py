"""GPT-NeoX's count of the operations of a step, by which many training rates are published."""

from __future__ import annotations

from simfrontier.core.workload.gpt_shape import GptShape


def neox_flops(shape: GptShape, samples: int, recomputed: bool) -> float:
    """F = 24 f B s L h² (1 + s/(6h) + V/(16 L h)); f = 4 with activation checkpointing
    (`recomputed`), else 3. It takes every model for one with an MLP of 4h and as many heads of keys as of queries.

    Source: EleutherAI/gpt-neox megatron/logging.py. `samples` is B, the sequences of one step over all ranks.
    """
    h, layers, vocabulary, sequence = shape.hidden, shape.num_layers, shape.vocabulary, shape.sequence
    factor = 4 if recomputed else 3
    base = 24 * factor * samples * sequence * layers * h * h
    return base * (1 + sequence / (6 * h) + vocabulary / (16 * layers * h))
