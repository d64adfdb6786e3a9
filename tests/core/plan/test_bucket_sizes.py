"""Buckets of Megatron-Core and of FSDP: how many calls of the library a layer's weights and gradients take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfrontier.core.plan import FAMILIES, Engine, make_plan
from simfrontier.core.plan.passes import bucket, gather_in_buckets
from simfrontier.core.plan.program import Move, Program
from simfrontier.core.plan.to_schedule import naive_program, tensors_of
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.workload import MODELS, gpt

MESH = Mesh((("node", 2), ("package", 1), ("gcd", 2)))
ENGINE = Engine(persistence_elements=0)
LAYERS = 3


def naive(family: str, **options: object) -> Program:
    workload = gpt(replace(MODELS["tiny"], num_layers=LAYERS), MESH.num_ranks, checkpointing="none")
    plan = make_plan(family, FAMILIES[family][0](family=family, **options), MESH)
    return naive_program(tensors_of(workload, plan, MESH, ENGINE), 1)


def in_layer(program: Program, purpose: str, layer: int = 1) -> list[int]:
    """Elements of each move of a purpose in the calls of one layer."""
    found = (item for place, item in program.items if place.layer == layer and isinstance(item, Move))
    return [move.num_elements for move in found if move.purpose == purpose]


def test_weights_are_gathered_in_as_few_calls_as_buckets_hold_them() -> None:
    program = naive("zero1", gather="next_forward")
    each = in_layer(program, "weight_gather")
    assert in_layer(gather_in_buckets(program, sum(each)), "weight_gather") == [sum(each)]
    assert in_layer(gather_in_buckets(program, 1), "weight_gather") == each
    halves = in_layer(gather_in_buckets(program, sum(each) - 1), "weight_gather")
    assert len(halves) == 2 and sum(halves) == sum(each)


def test_gradients_of_a_layer_are_reduced_together() -> None:
    program = naive("zero3")
    each = in_layer(program, "gradient")
    assert len(each) > 1 and in_layer(bucket(program, "gradient", 1e12, by_layer=True), "gradient") == [sum(each)]


@pytest.mark.parametrize(
    ("data", "tensor", "elements"),
    [(8, 1, 40e6), (40, 2, 80e6), (512, 2, 1024e6)],  # 1e6 for each data-parallel rank, at least 40e6
)
def test_buckets_of_megatron_core_grow_with_the_data_ranks(data: int, tensor: int, elements: float) -> None:
    engine = Engine(reduce_bucket_elements=40_000_000, bucket_elements_per_rank=1_000_000).on_ranks(data, tensor)
    assert engine.reduce_bucket_elements == elements
