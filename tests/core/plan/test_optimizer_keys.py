"""Optimizer and types of its states as scenario keys: their effect on time and memory."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from simfrontier.answers.study import BuiltSchedule, schedule_of_case, simulated
from simfrontier.core.program import Collective, Schedule, peak_bytes
from simfrontier.inputs.scenario import Scenario, scenario_of
from tests.core.plan.test_checkpoint_every import TEXT

PLANS = ("zero3", "tensor", "stages")
BF16 = {"model.precision": "bf16"}
NARROW = {**BF16, "model.master": "bf16", "model.moments": "bf16"}


def scenario(**settings: Any) -> Scenario:
    return scenario_of(tomllib.loads(TEXT), "states.toml", settings)


def built(plan: str, **settings: Any) -> Schedule:
    made = scenario(**settings)
    return schedule_of_case(made, made.case(plan, 16))


def step_s(plan: str, **settings: Any) -> float:
    made = scenario(**settings)
    return simulated(made, BuiltSchedule(schedule=schedule_of_case(made, made.case(plan, 16))), "analytic").step_s


@pytest.mark.parametrize("plan", PLANS)
def test_lamb_takes_longer_by_its_second_pass_and_its_sums(plan: str) -> None:
    """12 bytes more a parameter of the 1/16 that a rank of ZeRO-3 steps, at a memory of 1.6 TB/s or less, and one
    small all-reduce for each of 12 layers and three ends."""
    by_adam, by_lamb = step_s(plan), step_s(plan, **{"model.optimizer": "lamb"})
    assert by_adam < by_lamb < 1.1 * by_adam


@pytest.mark.parametrize("plan", PLANS)
def test_narrow_states_take_less_memory_and_time(plan: str) -> None:
    """A master of 4 bytes and two moments of 4 become three numbers of 2: 6 bytes less for each that a rank steps."""
    wide, narrow = built(plan, **BF16), built(plan, **NARROW)
    masters = [each for each in wide.tensors.values() if each.role == "master"]
    held = {each.name: each.local_elements(wide.mesh) for each in masters}
    layers = {each.name: int(wide.meta["num_layers"]) if each.per_layer else 1 for each in masters}
    if plan != "stages":  # whose first and last stage have other weights
        fewer = 6 * sum(held[name] * layers[name] for name in held)
        assert peak_bytes(wide).persistent_bytes - peak_bytes(narrow).persistent_bytes == fewer
    assert peak_bytes(narrow).num_bytes < peak_bytes(wide).num_bytes
    assert step_s(plan, **NARROW) < step_s(plan, **BF16)


@pytest.mark.parametrize("plan", ["zero3", "tensor"])
def test_muon_keeps_one_moment_of_matrices_and_gathers_their_updates(plan: str) -> None:
    """4 bytes less for each number of a matrix that a rank steps; and where ranks have parts of a matrix, each comes to
    have all of it, in bf16."""
    by_adam, by_muon = built(plan, **BF16), built(plan, **BF16, **{"model.optimizer": "muon"})
    layers, mesh = int(by_muon.meta["num_layers"]), by_muon.mesh
    matrices = {each.weight: each for each in by_muon.tensors.values() if each.role == "update"}
    masters = [by_muon.tensors[f"{weight}.master"] for weight in matrices]
    assert len(masters) == 4 and all(len(each.shape) == 2 for each in masters)
    fewer = 4 * layers * sum(each.local_elements(mesh) for each in masters)
    assert peak_bytes(by_adam).persistent_bytes - peak_bytes(by_muon).persistent_bytes == fewer
    gathers = [op for op in by_muon.ops if isinstance(op, Collective) and op.name == "update"]
    whole = {ref.name: by_muon.tensors[ref.name] for op in gathers for ref in op.dst}
    ends = [each for each in whole.values() if not each.placement.on(mesh).shards and not each.placement.on(mesh).flat]
    assert sum(each.local_bytes(mesh) for each in ends) == 2 * sum(each.num_elements for each in masters)
    assert step_s(plan, **{"model.optimizer": "muon"}) > step_s(plan)
