"""Checkpointing of every n-th layer: which layers do their forward again, what that costs, and what is refused."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from simfrontier.cost import Prices
from simfrontier.errors import InputError
from simfrontier.plan import Engine, build, make_plan
from simfrontier.plan.tensor import engine_of
from simfrontier.scenario import Scenario, scenario_of
from simfrontier.schedule import Compute, Schedule, check, peak_bytes
from simfrontier.study import BuiltSchedule, schedule_of_case, simulated
from simfrontier.tuning import SmallSchedules, estimate
from simfrontier.workload import workload_of
from tests.plan.grids import axonn, megatron, other
from tests.real.schedules import EXACT, options_of
from tests.schedule.builders import mesh_of

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
        batch, engine = samples * grid.batch_ranks(mesh), engine_of(grid, Engine(persistence_elements=0))
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


@pytest.mark.parametrize("every", [1, 2, 3, 4, 100])
@pytest.mark.parametrize(
    "family", ["zero1", "zero3", "zeropp", "zero-topo", "copy", "copy of each forward", "zero1 next"]
)
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


def test_a_stage_has_whole_periods() -> None:
    with pytest.raises(InputError, match="checkpoint_every = 2 does not divide the 3 layers that follow one another"):
        built("megatron", 2, tensor=2, pipeline=2)


def test_operations_by_hand() -> None:
    """Six layers of which 0 and 4 are done again: a layer's forward twice more than without any."""
    none, full, fourth = (
        workload_of(SHAPE, 3, how, "bf16", checkpoint_every=every).matmul_flops
        for how, every in (("none", 1), ("full", 1), ("full", 4))
    )
    assert full - none == 6 * (fourth - none) / 2 > 0


def test_the_fewer_are_checkpointed_the_more_is_kept() -> None:
    def most(every: int) -> int:
        return peak_bytes(built("zero1", every, micros=1, samples=64)).num_bytes

    assert most(1) < most(2) < most(3) < most(100)


def scenario(**settings: Any) -> Scenario:
    return scenario_of(tomllib.loads(TEXT), "every.toml", settings)


@pytest.mark.parametrize("every", [2, 3])
@pytest.mark.parametrize("plan", ["zero3", "tensor", "stages"])
def test_estimates_are_near_simulations_and_between_all_and_none(plan: str, every: int) -> None:
    made = scenario(**{"model.checkpoint_every": every})
    case = made.case(plan, 16)
    here = made.of(plan, 16)
    small = SmallSchedules(Prices(here.machine, made.library, 16))
    ours = estimate(case, small)
    theirs = simulated(here, BuiltSchedule(schedule=schedule_of_case(made, case)), "analytic").step_s
    assert ours.step_s == pytest.approx(theirs, rel=0.03)
    full, none = (estimate(scenario(**{"model.checkpointing": how}).case(plan, 16), small) for how in ("full", "none"))
    assert none.step_s < ours.step_s < full.step_s
    assert full.peak_bytes < ours.peak_bytes < none.peak_bytes
    share = 1 / every
    assert case.recomputed_share == pytest.approx(share)
    useful = case.shape.step_flops(case.samples, recomputed=False)
    assert case.model_flops == useful
    assert case.hardware_flops == pytest.approx(
        useful + share * (case.shape.step_flops(case.samples, recomputed=True) - useful)
    )


@pytest.mark.parametrize("attention", ["plain", "fused"])
def test_recomputed_operations_of_causal_attention_are_half_as_many_as_of_whole_attention(attention: str) -> None:
    """As the model's own are: a plain kernel that multiplies the masked half, too, does no more of use."""
    made = scenario(**{"model.causal": True, "model.attention": attention}).case("zero3", 16)
    assert made.model_flops < made.hardware_flops < made.model_flops * 4 / 3
    assert made.hardware_flops == pytest.approx(made.shape.step_flops(made.samples, recomputed=True), rel=1e-14)


def test_it_goes_with_full_checkpointing_alone() -> None:
    with pytest.raises(
        InputError, match=r'model\.checkpoint_every = 2: .* allowed: 1, or model\.checkpointing = "full"'
    ):
        scenario(**{"model.checkpoint_every": 2, "model.checkpointing": "none"})


def test_a_scenario_refuses_what_no_stage_can_do() -> None:
    with pytest.raises(InputError, match=r"plans\.stages: .* model\.checkpoint_every = 4 does not divide the 6 layers"):
        scenario(**{"model.checkpoint_every": 4})
