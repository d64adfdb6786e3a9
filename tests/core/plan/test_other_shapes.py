"""Schedules of GPTs of every kind pass the check under plans of every family."""

from __future__ import annotations

from typing import get_args

import pytest

from simfrontier.core.plan import Engine, build, make_plan
from simfrontier.core.plan.tensor import TensorOptions
from simfrontier.core.program import Compute, check
from simfrontier.core.workload import Attention, Checkpointing, gpt
from tests.core.plan.grids import axonn, megatron, schedule_of
from tests.core.program.builders import mesh_of, options_of
from tests.core.workload.gpt_shapes import BASE, NAMED

GRIDS: dict[str, tuple[TensorOptions, int]] = {
    "tensor": (megatron(4), 8),
    "sequence": (megatron(2, sequence_parallel=True, data="zero1"), 4),
    "pipeline": (megatron(2, 2), 4),
    "x, y, z": (axonn(2, 2, 2), 8),
    "y": (axonn(1, 4, 1), 4),
}


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("name", NAMED)
def test_grids_of_any_shape_pass_the_check(name: str, grid: str) -> None:
    options, ranks = GRIDS[grid]
    checkpointing = get_args(Checkpointing)[([*NAMED].index(name) + [*GRIDS].index(grid)) % 3]
    schedule = schedule_of(options, ranks, shape=NAMED[name], micros=2, checkpointing=checkpointing)
    assert check(schedule).findings == ()


@pytest.mark.parametrize(("family", "attention"), [("zero1", "plain"), ("zero3", "fused")])
@pytest.mark.parametrize("name", NAMED)
def test_zero_of_any_shape_passes_the_check(name: str, family: str, attention: Attention) -> None:
    mesh = mesh_of(2, 1, 2)
    workload = gpt(NAMED[name], 8, "full", precision="bf16", attention=attention)
    schedule = build(workload, make_plan(family, options_of(family), mesh), mesh, Engine(persistence_elements=0), 2)
    assert check(schedule).findings == ()


def test_selective_checkpointing_does_the_core_of_attention_again() -> None:
    """Right before the backward of the projection behind it, whose weights' gradient reads the context."""

    def ops(attention: Attention) -> list[tuple[str, bool]]:
        mesh = mesh_of(1, 1, 2)
        work = gpt(BASE, 2, "selective", precision="bf16", attention=attention)
        made = build(work, make_plan("ddp", options_of("ddp"), mesh), mesh, Engine())
        call = next(call for call in made.roles[0].calls if call.label == "backward")
        computes = [op for op in call.ops if isinstance(op, Compute) and op.named.module]
        return [(op.name, any(made.tensors[ref.name].recomputes for ref in op.writes)) for op in computes]

    again = [name for name, is_again in ops("plain") if is_again]
    assert again == ["scores", "softmax", "context"]
    names = [name for name, _ in ops("plain")]
    assert names[names.index("scores") - 1 : names.index("context") + 2] == [
        "ln2.backward",
        "scores",
        "softmax",
        "context",
        "dense.dgrad",
    ]
    assert not any(is_again for _, is_again in ops("fused"))
