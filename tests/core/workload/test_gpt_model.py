"""Floating-point operations of the GPT graph, by hand and against the usual metrics."""

from fractions import Fraction

import pytest

from simfrontier.core.workload import MODELS, GptShape, find_model, gpt, neox_flops
from tests.some import some

NEOX = find_model("gpt-neox-20b")
# those that the metric is made for: 12 h² elements in a layer's matrices
GPTS = [
    name
    for name, shape in MODELS.items()
    if isinstance(shape, GptShape) and not (shape.gated or shape.experts or shape.kv_heads or shape.ffn_hidden)
]
SIMPLE = GptShape(name="simple", num_layers=3, hidden=96, heads=4, vocabulary=160, sequence=24, source="for this test")


def exact_neox_flops(shape: GptShape, samples: int, sequence: int, factor: int) -> Fraction:
    """24 f B s L h² (1 + s/(6h) + V/(16 L h)), in fractions."""
    h, layers = shape.hidden, shape.num_layers
    base = 24 * factor * samples * sequence * layers * h * h
    return base * (1 + Fraction(sequence, 6 * h) + Fraction(shape.vocabulary, 16 * layers * h))


@pytest.mark.parametrize("name", GPTS)
def test_matmuls_with_checkpointing_are_the_metric_with_factor_four(name: str) -> None:
    """To the last operation: the head, never recomputed, takes 6 B s V h, and that is what V/(16 L h) is with f = 4."""
    shape = MODELS[name]
    work = gpt(shape, 3, checkpointing="full")
    assert work.matmul_flops == exact_neox_flops(shape, 3, shape.sequence, 4)
    assert neox_flops(shape, 3, recomputed=True) == pytest.approx(work.matmul_flops, rel=1e-14)


@pytest.mark.parametrize("name", GPTS)
def test_without_checkpointing_the_metric_leaves_out_a_quarter_of_the_head(name: str) -> None:
    """With f = 3 the formula charges the head 4.5 B s V h instead of 6: 1.5 B s V h are missing."""
    shape = MODELS[name]
    work = gpt(shape, 3, checkpointing="none")
    missing = Fraction(3, 2) * 3 * shape.sequence * shape.vocabulary * shape.hidden
    assert work.matmul_flops - exact_neox_flops(shape, 3, shape.sequence, 3) == missing


def test_flops_per_sequence_of_the_20b_model() -> None:
    assert f"{neox_flops(NEOX, 1, recomputed=True) / 1e12:.1f}" == "348.5"
    assert f"{neox_flops(NEOX, 1, recomputed=False) / 1e12:.1f}" == "261.4"


def test_matmul_flops_per_layer_by_hand() -> None:
    """2 m n k each, m = b s: qkv 3h², dense h², MLP 8h², scores and context 2 s h each; backward twice the forward."""
    work = gpt(SIMPLE, 2, checkpointing="none")
    m, h, s = 2 * 24, 96, 24
    forward = sum(op.flops for op in work.layers[0].forward)
    assert forward == 2 * m * 12 * h * h + 2 * 2 * m * s * h
    assert sum(op.flops for op in work.layers[0].backward) == 2 * forward


def test_attention_splits_by_whole_heads_only() -> None:
    """Where a is iterated over, it counts heads, or the features of whole heads."""
    work = gpt(SIMPLE, 2, checkpointing="full")
    ops = [*work.layers[0].forward, *work.layers[0].backward]
    for op in some(op for op in ops if "a" in dict(op.iteration)):
        assert dict(op.iteration)["a"] % SIMPLE.heads == 0, op.name
