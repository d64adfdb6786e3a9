"""Adapters on ranks in one process: only they move, as in the unsharded model, under every way to cut it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from simfrontier.core.program import Compute, Schedule, check
from simfrontier_real.train.models import initial_weights
from simfrontier_real.train.train import train_in_one_process
from tests.real.grids import SHAPES, Grid, axonn, context, megatron
from tests.real.schedules import ENGINES, FAMILIES, schedule, training
from tests.real.together import agrees

for _name in ("llama", "sequential", "experts", "deepseek", "latent", "bloom"):
    SHAPES[f"{_name} with adapters"] = replace(SHAPES[_name], name=f"test-lora-{_name}", lora_rank=4)
SHAPES["adapters of qkv"] = replace(SHAPES["llama"], name="test-lora-qkv", lora_rank=4, lora_of=("qkv",))
LLAMA: Final = "llama with adapters"


@pytest.mark.parametrize(
    "grid",
    [
        megatron(1, 1, 2, shape="sequential with adapters", checkpointing="none"),
        megatron(2, 1, 2, shape=LLAMA, data="zero1", sequence_parallel=True, product_pieces=2),
        megatron(2, 2, 1, shape=LLAMA),
        megatron(1, 4, 1, shape="adapters of qkv", checkpointing="none"),
        megatron(1, 2, 1, shape=LLAMA, order="zb-h1", grad_accum=4),
        megatron(1, 2, 1, shape=LLAMA, order="dualpipev", chunks=2, grad_accum=4),
        megatron(1, 1, 4, shape="bloom with adapters", data="zero3"),
        megatron(1, 1, 2, shape="experts with adapters", expert=2, data="zero1"),
        megatron(2, 1, 2, shape="deepseek with adapters", expert=4, expert_tensor=1, sequence_parallel=True),
        megatron(2, 1, 2, shape="latent with adapters", optimizer="muon"),
        axonn(2, 2, 2, shape=LLAMA, optimizer="lamb"),
        context(2, "ring", shape=LLAMA),
        context(2, "gather", 2, shape=LLAMA, sequence_parallel=True),
    ],
    ids=str,
)
def test_grids_train_like_the_unsharded_model(grid: Grid) -> None:
    agrees(grid.schedule)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_trains_like_the_unsharded_model(family: str) -> None:
    agrees(schedule(FAMILIES[family], (2, 1, 2), grad_accum=2, engine=ENGINES["tight"], model="adapters"))


def _made() -> Schedule:
    return megatron(2, shape=LLAMA).schedule


def test_frozen_weights_stay_and_adapters_move() -> None:
    made = _made()
    before, after = initial_weights(made, 0), train_in_one_process(made, training(2)).weights
    moved = {name for (name, layer), whole in after.items() if not np.array_equal(whole, before[name, layer])}
    assert moved == {name for name, tensor in made.tensors.items() if tensor.role == "weight" and "lora" in name}


def test_frozen_weights_have_no_states() -> None:
    made = _made()
    held = [tensor for tensor in made.tensors.values() if tensor.weight and made.tensors[tensor.weight].is_frozen]
    assert {tensor.role for tensor in held} == {"weight"}
    assert not [op for op in made.ops if isinstance(op, Compute) and op.name == "embedding.wgrad"]


def test_the_checker_knows_what_is_frozen() -> None:
    """An adapter that is said to be frozen is stepped all the same; a frozen weight that is not is not stepped."""
    made = _made()
    for name, frozen, said in (
        ("qkv.lora_a.weight", True, "no adam of a frozen weight"),
        ("qkv.weight", False, "one adam per step"),
    ):
        tensors = {**made.tensors, name: replace(made.tensors[name], is_frozen=frozen)}
        assert said in str(check(replace(made, tensors=tensors)))
