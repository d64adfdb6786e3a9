"""Schedules of GPTs of every kind pass the check under plans of every family."""

from __future__ import annotations

import pytest

from simfrontier.errors import InputError
from simfrontier.plan import Engine, build, make_plan
from simfrontier.plan.tensor import TensorOptions
from simfrontier.schedule import Collective, check
from simfrontier.workload import Attention, gpt
from tests.plan.grids import axonn, megatron, schedule_of
from tests.schedule.builders import mesh_of, options_of
from tests.workload.gpt_shapes import BASE, NAMED

GRIDS: dict[str, tuple[TensorOptions, int]] = {
    "tensor": (megatron(4), 8),
    "sequence": (megatron(2, sequence_parallel=True, data="zero1"), 4),
    "pipeline": (megatron(2, 2), 4),
    "x, y, z": (axonn(2, 2, 2), 8),
    "y": (axonn(1, 4, 1), 4),
}


@pytest.mark.parametrize("checkpointing", [True, False])
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("name", NAMED)
def test_grids_of_any_shape_pass_the_check(name: str, grid: str, checkpointing: bool) -> None:
    options, ranks = GRIDS[grid]
    schedule = schedule_of(options, ranks, shape=NAMED[name], micros=2, checkpointing=checkpointing)
    assert check(schedule).findings == ()


@pytest.mark.parametrize("attention", ["plain", "fused"])
@pytest.mark.parametrize("family", ["ddp", "zero1", "zero3"])
@pytest.mark.parametrize("name", NAMED)
def test_zero_of_any_shape_passes_the_check(name: str, family: str, attention: Attention) -> None:
    mesh = mesh_of(2, 1, 2)
    workload = gpt(NAMED[name], 8, True, precision="bf16", attention=attention)
    schedule = build(workload, make_plan(family, options_of(family), mesh), mesh, Engine(persistence_elements=0), 2)
    assert check(schedule).findings == ()


def test_a_gated_mlp_is_reduced_as_often_as_another() -> None:
    """Gate and up are one product: one all-reduce of its input's gradient, as without a gate."""

    def calls(name: str) -> int:
        shape = BASE if name == "base" else NAMED[name]
        schedule = schedule_of(megatron(4), 4, shape=shape)
        return sum(isinstance(op, Collective) for role in schedule.roles for call in role.calls for op in call.ops)

    assert calls("llama-like") == calls("base")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (megatron(16), "tensor = 16 does not divide heads = 24; nearest that do: 12 and 24"),
        (megatron(12), "tensor = 12 does not divide kv_heads = 8; nearest that do: 8"),
        (axonn(1, 3, 1), "y = 3 does not divide kv_heads = 8; nearest that do: 2 and 4"),
    ],
)
def test_heads_of_keys_must_divide(options: TensorOptions, text: str) -> None:
    with pytest.raises(InputError) as caught:
        options.refuse_shape(NAMED["queries in groups"])
    assert str(caught.value) == text
