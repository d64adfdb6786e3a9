"""Named models: their parameters by hand, as published, and as the run's authors count them."""

import pytest

from simfrontier.core.workload import MODELS, find_model, gpt

NEOX = find_model("gpt-neox-20b")


def test_the_20b_model_has_20_555_billion_parameters() -> None:
    assert NEOX.num_parameters == 20_554_567_680
    assert f"{NEOX.num_parameters / 1e9:.3f}" == "20.555"
    assert (NEOX.num_layers, NEOX.hidden, NEOX.heads, NEOX.sequence, NEOX.vocabulary) == (44, 6144, 64, 2048, 50432)


def test_sizes_per_layer_of_the_20b_model() -> None:
    """Printed digits for the shape of gpt-neox configs/20B.yml."""
    weights = gpt(NEOX, 1, checkpointing="full").weights
    size = {name: weight.num_elements for name, weight in weights.items()}
    for name, millions in (
        ("qkv.weight", "113.25"),
        ("dense.weight", "37.75"),
        ("h_to_4h.weight", "150.99"),
        ("4h_to_h.weight", "150.99"),
    ):
        assert f"{size[name] / 1e6:.2f}" == millions
    assert f"{size['embedding.weight'] / 1e6:.1f}" == f"{size['head.weight'] / 1e6:.1f}" == "309.9"
    layer = sum(weight.num_elements for weight in weights.values() if weight.per_layer)
    assert f"{layer / 1e6:.2f}" == "453.06"
    vectors = sum(w.num_elements for w in weights.values() if w.per_layer and len(w.shape) == 1)
    assert vectors == 13 * NEOX.hidden
    assert f"{(NEOX.num_layers * vectors + 2 * NEOX.hidden) / 1e6:.1f}" == "3.5"


# Megatron-AxoNN counts 12 l h² (1 + 13/(12 h) + (V + S)/(12 l h)) parameters: one embedding, which the head shares, and
# S learned positions. The graph has no positions and an untied head: V h more, S h fewer, and a final norm of 2 h.
AXONN = {
    "gpt-5b": "5.05",
    "gpt-10b": "10.34",
    "gpt-20b": "20.11",
    "gpt-40b": "39.23",
    "gpt-50b": "49.42",
    "gpt-60b": "57.57",
    "gpt-80b": "76.76",
    "gpt-100b": "96.70",
    "gpt-160b": "152.9",
    "gpt-175b": "174.6",
}


@pytest.mark.parametrize(("name", "billions"), AXONN.items())
def test_axonn_shapes_by_their_own_count(name: str, billions: str) -> None:
    shape = MODELS[name]
    layers, h, v, s = shape.num_layers, shape.hidden, shape.vocabulary, shape.sequence
    theirs = 12 * layers * h * h + 13 * layers * h + (v + s) * h
    assert f"{theirs / 1e9:.{len(billions.partition('.')[2])}f}" == billions
    # tied as there; they count the positions' table, which we leave out, and no final norm
    assert shape.num_parameters - theirs == 2 * h - s * h


def test_the_tiny_mlp_has_69_000_parameters() -> None:
    """32·64 + 64 in; two layers of 64·256 + 256 and 256·64 + 64; 16·64 out: 2,112 + 2 · 33,088 + 1,024."""
    assert find_model("tiny-mlp").num_parameters == 2112 + 2 * 33_088 + 1024 == 69_312
