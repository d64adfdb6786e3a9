"""Adapters (LoRA): counts by hand of parameters and operations, and what the backward of frozen weights leaves out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from simfrontier.base.errors import InputError
from simfrontier.core.workload import GptShape, LoraPart, Workload, find_model, gpt
from simfrontier.core.workload.adapters import MODULES
from tests.core.workload.gpt_shapes import BASE, shapes


def _trained(work: Workload) -> int:
    held = work.instances(work.layers)
    return sum(held[w.name] * w.num_elements for w in work.weights.values() if not w.is_frozen)


def test_llama_2_70b_of_mlperf_by_hand() -> None:
    """80 layers; rank 16 beside qkv (8,192 to 8,192 + 2 x 1,024 features) and proj (8,192 to 8,192)."""
    plain = find_model("llama-2-70b")
    shape = replace(plain, lora_rank=16, lora_of=("qkv", "proj"))  # type: ignore[type-var]
    adapters = 80 * 16 * ((8192 + 10240) + (8192 + 8192))
    assert _trained(shape.workload(1, "none", "bf16", "fused", "fused")) == adapters == 44_564_480
    assert shape.num_parameters == plain.num_parameters + adapters


@given(shapes(), st.sets(st.sampled_from([*MODULES]), min_size=1), st.integers(1, 8))
def test_the_formula_counts_the_adapters_of_the_graph(shape: GptShape, parts: set[LoraPart], rank: int) -> None:
    lora = replace(shape, lora_rank=rank, lora_of=tuple(sorted(parts)))
    work = gpt(lora, 1, "none")
    assert work.num_parameters == lora.num_parameters
    assert _trained(work) == lora.num_parameters - shape.num_parameters


def test_operations_by_hand() -> None:
    """Of 2 layers of 16 features and a head of 64 classes, with 8 positions: forward 2 N, backward 2 N for gradients
    of inputs (not of qkv's in the first layer, where nothing below is trained), adapters 6 each but for that input,
    and attention in full."""
    shape = replace(BASE, name="hand", num_layers=2, hidden=16, heads=2, vocabulary=64, sequence=8)
    work = gpt(replace(shape, lora_rank=4), 1, "none")
    qkv, rest, head = 16 * 48, 16 * 16 + 2 * 16 * 64, 16 * 64
    sides = (16 + 48) + (16 + 16) + 2 * (16 + 64)
    attention = 2 * 6 * 2 * 16 * 8 * 8
    frozen = 4 * 8 * (2 * (qkv + rest) + head) - 2 * 8 * qkv
    adapters = 6 * 8 * 2 * 4 * sides - 2 * 8 * 4 * 16
    assert work.matmul_flops == frozen + adapters + attention


def test_nothing_below_the_first_adapter_has_a_gradient() -> None:
    work = gpt(replace(BASE, num_layers=3, lora_rank=2, lora_of=("mlp",)), 1, "none")
    first, second, third = work.layers
    assert work.embedding.backward == () and second is third
    assert {op.named.module for op in first.backward}.isdisjoint({"ln1", "qkv", "dense", "scores"})
    assert {"ln1", "qkv", "dense"} <= {op.named.module for op in second.backward}
    assert not [op for layer in work.layers for op in layer.backward for name in op.gradients if "lora" not in name]


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match=r"model .*: lora_of = \['qkv'\]; missing: lora_rank"):
        replace(BASE, lora_of=("qkv",))
    with pytest.raises(InputError, match=r"lora_of = \[\]; allowed: some of qkv, proj, mlp"):
        replace(BASE, lora_rank=2, lora_of=())
