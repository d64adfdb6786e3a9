"""Shapes of GPTs with all options: parameters as published, and operations in closed form."""

import math
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, strategies as st

from simfrontier.core.workload import Attention, Checkpointing, GptShape, find_model, gpt, workload_of
from tests.core.workload.gpt_shapes import BASE, NAMED, shapes

# As the weights that were published, or the file of the run, count them.
PUBLISHED = {
    "gpt2-xl": 1_557_611_200,
    "mpt-7b": 6_649_286_656,
    "mpt-13b": 12_853_954_560,
    "mpt-70b": 64_862_437_376,
    "bloom-176b": 176_247_271_424,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3-405b": 405_853_388_800,
}


@pytest.mark.parametrize(("name", "number"), PUBLISHED.items())
def test_parameters_of_published_models(name: str, number: int) -> None:
    assert find_model(name).num_parameters == number


@given(shapes())
def test_the_formula_counts_the_weights_of_the_graph(shape: GptShape) -> None:
    assert gpt(shape, 1, "none").num_parameters == shape.num_parameters


@pytest.mark.parametrize("name", NAMED)
def test_the_formulas_count_the_graph_of_named_shapes(name: str) -> None:
    """Where nothing is causal, a token's useful operations are all that the graph multiplies with plain attention."""
    shape = replace(NAMED[name], causal=False)
    work = gpt(shape, 1, "none")
    assert work.num_parameters == shape.num_parameters
    assert work.matmul_flops == shape.model_flops_per_token * shape.sequence


def test_a_layer_of_latent_attention_by_hand() -> None:
    """DeepSeek-V3 (arXiv 2412.19437, section 4.2): 128 heads of 128 + 64 features in queries and keys and 128 in
    values, latents of 1536 and 512; fused, pairs of positions are multiplied over 192 and 128 features forward, and
    backward over 192 three times and over 128 twice."""
    shape = replace(
        BASE,
        **{"hidden": 7168, "heads": 128, "sequence": 4, "positions": "rotary", "norm": "rmsnorm", "biases": False},
        **{"q_rank": 1536, "kv_rank": 512, "nope_features": 128, "rope_features": 64, "value_features": 128},
    )
    work = gpt(shape, 1, "none", attention="fused")
    sizes = {name: weight.shape for name, weight in work.weights.items() if weight.per_layer}
    assert {name: size for name, size in sizes.items() if not name.startswith(("ln", "h_to", "4h"))} == {
        "query_down.weight": (1536, 7168),
        "query_norm.weight": (1536,),
        "query_up.weight": (128 * 192, 1536),
        "kv_down.weight": (512 + 64, 7168),
        "kv_norm.weight": (512,),
        "kv_up.weight": (128 * 256, 512),
        "dense.weight": (7168, 128 * 128),
    }
    flops = {op.name: op.flops for op in (*work.layers[0].forward, *work.layers[0].backward)}
    assert flops["attention"] == 2 * 128 * 16 * (192 + 128)
    assert flops["attention.backward"] == 2 * 128 * 16 * (3 * 192 + 2 * 128)


@given(st.integers(1, 30), st.integers(1, 40), st.integers(1, 4))
def test_pairs_of_positions_in_windows(length: int, window: int, full_every: int) -> None:
    """Each position attends to itself and those before it, to so many at most, or in some layers to all."""
    shape = replace(BASE, num_layers=4, sequence=length, causal=True, window=window, full_every=full_every)
    here = sum(min(place, window) for place in range(1, length + 1))
    pairs = [length * (length + 1) // 2 if (layer + 1) % full_every == 0 else here for layer in range(4)]
    work = gpt(shape, 1, "none", attention="fused")
    flops = [next(op.flops for op in layer.forward if op.name == "attention") for layer in work.layers]
    assert flops == [2 * 2 * BASE.hidden * each for each in pairs]
    attended = shape.model_flops_per_token - replace(shape, window=None, full_every=None).model_flops_per_token
    assert attended == 12 * BASE.hidden * sum(pairs) // length - 6 * 4 * BASE.hidden * (length + 1)


@given(shapes(), st.integers(1, 3), st.sampled_from(["plain", "fused"]))
def test_matrix_products_of_any_shape(shape: GptShape, batch: int, attention: Attention) -> None:
    """2 b s for each element of a matrix, forward, and twice that backward; attention makes 2 products of all pairs of
    positions forward and 4 backward, fused 5, of which it then needs only those that are not later, if it is causal."""
    h, s, tokens = shape.hidden, shape.sequence, batch * shape.sequence
    each = shape.head_dim or shape.hidden // shape.heads
    queries, keys = each * shape.heads, each * (shape.kv_heads or shape.heads)
    inner = shape.ffn_hidden or 4 * h
    elements = h * (queries + 2 * keys) + h * queries + (3 if shape.gated else 2) * h * inner
    rows = -(-shape.vocabulary // shape.vocabulary_multiple) * shape.vocabulary_multiple
    pairs = s * (s + 1) // 2 if attention == "fused" and shape.causal else s * s
    products = 7 if attention == "fused" else 6
    layer = 6 * tokens * elements + products * 2 * batch * pairs * queries
    assert gpt(shape, batch, "none", attention=attention).matmul_flops == (
        shape.num_layers * layer + 6 * tokens * rows * h
    )


@given(shapes())
def test_useful_operations_of_a_token_are_those_of_the_graph(shape: GptShape) -> None:
    """Plain attention computes every pair, three times (forward, and two gradients), as the count by all positions
    does; half as many and those of a position with itself where only what is not later counts."""
    whole = replace(shape, causal=False)
    assert whole.model_flops_per_token * shape.sequence == gpt(whole, 1, "none").matmul_flops
    # 12 L q s for all pairs, 6 L q (s + 1) for those
    queries = shape.heads * (shape.head_dim or shape.hidden // shape.heads)
    saved = 12 * shape.num_layers * queries * shape.sequence
    saved -= 6 * shape.num_layers * queries * (shape.sequence + 1)
    assert whole.model_flops_per_token - replace(shape, causal=True).model_flops_per_token == saved


def test_selective_checkpointing_multiplies_attention_once_more() -> None:
    """Two products of 2 b s² h a layer: 2 layers · 2 · 2 · 24² · 48; what is fused, or has no attention, nothing."""
    counts = {how: gpt(BASE, 1, how).matmul_flops for how in get_args(Checkpointing)}
    assert counts["selective"] - counts["none"] == 2 * 2 * 2 * 24**2 * 48
    fused = {how: gpt(BASE, 1, how, attention="fused").matmul_flops for how in get_args(Checkpointing)}
    assert fused["selective"] == fused["none"] < fused["full"]
    made = workload_of(find_model("tiny-mlp"), 1, "selective")
    assert (
        made.recomputed(made.layers[0]) == ()
        and made.matmul_flops == workload_of(find_model("tiny-mlp"), 1, "none").matmul_flops
    )


def test_a_llama_layer_by_hand() -> None:
    """Llama 3 8B: qkv 4096 · (4096 + 2 · 1024), dense 4096², gate, up and down 3 · 4096 · 14336, two norms of 4096."""
    work = gpt(find_model("llama-3-8b"), 1, "none")  # type: ignore[arg-type]
    sizes = {name: weight.num_elements for name, weight in work.weights.items() if weight.per_layer}
    assert sizes == {
        "qkv.weight": 4096 * 6144,
        "dense.weight": 4096 * 4096,
        "h_to_4h.weight": 2 * 4096 * 14336,
        "4h_to_h.weight": 4096 * 14336,
        "ln1.weight": 4096,
        "ln2.weight": 4096,
    }
    assert not [name for name in work.weights if name.endswith(".bias")]


@pytest.mark.parametrize(("attention", "squares"), [("plain", 2), ("fused", 0)])
def test_dropout_keeps_masks_of_a_byte(attention: Attention, squares: int) -> None:
    """Two masks of the stream, 24 × 48 a sequence; of plain attention one of 24 heads × 24² pairs, and the dropped
    probabilities beside the probabilities."""
    work = gpt(NAMED["dropped"], 1, "none", attention=attention)
    masks = {name: math.prod(value.shape) for name, value in work.values.items() if value.dtype == "uint8"}
    stream = {"attention.mask": 24 * 48, "mlp.mask": 24 * 48}
    assert masks == (stream | {"probabilities.mask": 24**3} if squares else stream)
    read = {name for op in work.layers[0].backward for name, _ in op.reads}
    assert len(read & {"probabilities", "probabilities.dropped"}) == squares
    assert {op.kind for op in work.layers[0].forward} >= {"dropout"}
    assert not [name for name in work.weights if "drop" in name]


def test_defaults_leave_the_usual_graph() -> None:
    """What says the same as a default makes the same graph."""
    same = replace(BASE, ffn_hidden=4 * BASE.hidden, kv_heads=BASE.heads)
    assert gpt(same, 2, "full") == gpt(BASE, 2, "full")
