"""The MLP graph: operations by hand, and shapes of its values."""

from simfrontier.core.workload import MlpShape, mlp

SHAPE = MlpShape(name="mlp", num_layers=3, inputs=40, hidden=96, classes=24, source="for this test")


def test_matmul_flops_by_hand() -> None:
    """2 b n k a product, b = 5. In: forward and the weight's gradient, 2 · i h; its input needs no gradient. A layer:
    two products of 4h² forward, twice that backward. Head: three of c h. Recomputation repeats the layers' forward."""
    b, i, h, c, layers = 5, 40, 96, 24, 3
    plain = 2 * b * (2 * i * h + layers * 3 * 8 * h * h + 3 * c * h)
    assert mlp(SHAPE, b, checkpointing="none").matmul_flops == plain
    assert mlp(SHAPE, b, checkpointing="full").matmul_flops == plain + 2 * b * layers * 8 * h * h
