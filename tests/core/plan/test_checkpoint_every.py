"""Checkpointing of every n-th layer: which layers recompute their forward, and the operations that takes."""

from __future__ import annotations

from typing import Any

import pytest

from simfrontier.core.plan import Engine, build, make_plan
from simfrontier.core.plan.tensor import engine_of
from simfrontier.core.program import Compute, Schedule, check
from simfrontier.core.workload import workload_of
from tests.core.plan.grids import axonn, megatron, other
from tests.core.program.builders import mesh_of
from tests.real.schedules import EXACT, options_of

LAYERS = 6
SHAPE = other(num_layers=LAYERS)
TEXT = """
name = "every"
title = "Every n-th layer"
stack = "none"
[machine]
name = "frontier"
[model]
name = "gpt-neox-20b"
num_layers = 12
[run]
devices = [16]
[plans.zero3]
[plans.tensor]
family = "megatron"
tensor = 4
[plans.stages]
family = "megatron"
tensor = 2
pipeline = 2
grad_accum = 4
"""


def built(family: str, every: int, micros: int = 2, samples: int = 2, **options: Any) -> Schedule:
    if family in ("megatron", "axonn"):
        grid = {"megatron": megatron, "axonn": axonn}[family](**options)
        mesh = grid.mesh(8, 1, 1)
        batch, engine = samples * grid.batch_ranks(mesh), engine_of(grid, Engine(persistence_elements=0), 1)
    else:
        kind, keys = EXACT[family]
        family, grid, mesh = kind, options_of(kind, **keys), mesh_of(2, 1, 2)
        batch, engine = samples * mesh.num_ranks, Engine(persistence_elements=0)
    work = workload_of(SHAPE, batch, "full", "bf16", checkpoint_every=every)
    return build(work, make_plan(family, grid, mesh), mesh, engine, micros)


def again(schedule: Schedule) -> set[int]:
    """The layers that make something again."""
    out = set()
    for role in schedule.roles:
        for call in role.calls:
            made = (ref for op in call.ops if isinstance(op, Compute) for ref in op.writes)
            if any(schedule.tensors[ref.name].recomputes for ref in made):
                out.add(call.layer)
    return out


@pytest.mark.parametrize("every", [1, 2, 4])
@pytest.mark.parametrize("family", ["zero1", "zero3", "zero-topo", "copy of each forward"])
def test_layers_whose_numbers_divide_do_their_forward_again(family: str, every: int) -> None:
    schedule = built(family, every)
    assert str(check(schedule)) == "no findings"
    assert again(schedule) == {layer for layer in range(LAYERS) if layer % every == 0}


@pytest.mark.parametrize(
    ("family", "keys"),
    [
        ("megatron", {"tensor": 2, "sequence_parallel": True}),
        ("megatron", {"tensor": 2, "pipeline": 2}),
        ("megatron", {"tensor": 1, "pipeline": 2, "order": "1f1b", "data": "zero3"}),
        ("axonn", {"x": 2, "y": 1, "z": 2}),
    ],
)
def test_in_grids_and_pipelines_too(family: str, keys: dict[str, Any]) -> None:
    schedule = built(family, 3, micros=4, **keys)
    assert str(check(schedule)) == "no findings"
    assert again(schedule) == {0, 3}


def test_operations_by_hand() -> None:
    """Six layers of which 0 and 4 are done again: a layer's forward twice more than without any."""
    none, full, fourth = (
        workload_of(SHAPE, 3, how, "bf16", checkpoint_every=every).matmul_flops
        for how, every in (("none", 1), ("full", 1), ("full", 4))
    )
    assert full - none == 6 * (fourth - none) / 2 > 0
