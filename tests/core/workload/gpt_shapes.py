"""Small shapes of GPTs with every option that a shape has, drawn or by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hypothesis import strategies as st

from simfrontier.core.workload import GptShape

BASE: Final = GptShape(
    name="base",
    num_layers=2,
    hidden=48,
    heads=24,
    vocabulary=144,
    sequence=24,
    source="for these tests",
    residual="sequential",
)
NAMED: Final = {
    "llama-like": replace(
        BASE, gated=True, kv_heads=8, norm="rmsnorm", biases=False, positions="rotary", ffn_hidden=72, causal=True
    ),
    "bloom-like": replace(BASE, positions="alibi", embedding_norm=True, tied=True),
    "gpt-2-like": replace(BASE, positions="learned", tied=True, vocabulary=140, vocabulary_multiple=16),
    "mpt-like": replace(BASE, positions="alibi", biases=False, tied=True, causal=True),
    "queries in groups": replace(BASE, kv_heads=8, causal=True),
    "dropped": replace(BASE, dropout=True),
    "wide heads": replace(BASE, head_dim=2 * BASE.hidden // BASE.heads, kv_heads=8, positions="rotary", biases=False),
    "rotated": replace(BASE, positions="rotary", residual="parallel"),
    "normal heads": replace(BASE, kv_heads=8, positions="rotary", qk_norm=True, biases=False, norm="rmsnorm"),
    "latent": replace(
        BASE,
        **{"q_rank": 10, "kv_rank": 6, "nope_features": 5, "rope_features": 4, "value_features": 3},
        **{"positions": "rotary", "norm": "rmsnorm", "biases": False, "gated": True, "causal": True},
    ),
    "windows": replace(BASE, causal=True, window=7, full_every=2),
    "latent keys": replace(BASE, kv_rank=6, nope_features=2, rope_features=2, value_features=7, positions="rotary"),
    "all at the embedding": replace(
        BASE, positions="learned", embedding_norm=True, norm="rmsnorm", gated=True, dropout=True
    ),
}


@st.composite
def shapes(draw: st.DrawFn) -> GptShape:
    """Any combination of options, at sizes that differ from one another."""
    kv_heads, group, features = draw(st.integers(1, 3)), draw(st.integers(1, 3)), 2 * draw(st.integers(1, 3))
    heads = kv_heads * group
    return GptShape(
        name="drawn",
        num_layers=draw(st.integers(1, 3)),
        hidden=heads * features,
        heads=heads,
        vocabulary=draw(st.integers(1, 40)),
        sequence=draw(st.integers(1, 9)),
        source="drawn",
        residual=draw(st.sampled_from(["parallel", "sequential"])),
        tied=draw(st.booleans()),
        ffn_hidden=draw(st.none() | st.integers(1, 50)),
        gated=draw(st.booleans()),
        kv_heads=draw(st.sampled_from([None, kv_heads])),
        head_dim=draw(st.sampled_from([None, 2, 8])),
        norm=draw(st.sampled_from(["layernorm", "rmsnorm"])),
        biases=draw(st.booleans()),
        positions=draw(st.sampled_from(["none", "learned", "rotary", "alibi"])),
        embedding_norm=draw(st.booleans()),
        causal=draw(st.booleans()),
        dropout=draw(st.booleans()),
        vocabulary_multiple=draw(st.integers(1, 16)),
    )
