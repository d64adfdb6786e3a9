"""Scenarios that say which optimizer steps weights and in which types its states are kept: time, memory, estimates."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from simfrontier.cost import Prices
from simfrontier.errors import InputError
from simfrontier.scenario import Scenario, scenario_of
from simfrontier.schedule import Schedule, check, peak_bytes
from simfrontier.study import BuiltSchedule, schedule_of_case, simulated
from simfrontier.tuning import SmallSchedules, estimate
from tests.plan.test_checkpoint_every import TEXT

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


@pytest.mark.parametrize("settings", [{"model.optimizer": "lamb"}, NARROW], ids=["lamb", "bf16"])
@pytest.mark.parametrize("plan", PLANS)
def test_estimates_are_near_simulations(plan: str, settings: dict[str, Any]) -> None:
    made = scenario(**settings)
    case = made.case(plan, 16)
    schedule = schedule_of_case(made, case)
    assert str(check(schedule)) == "no findings"
    guess = estimate(case, SmallSchedules(Prices(made.machine, made.library, 16)))
    assert guess.step_s == pytest.approx(step_s(plan, **settings), rel=0.03)
    assert guess.peak_bytes == pytest.approx(peak_bytes(schedule).num_bytes, rel=0.1)


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


def test_types_and_optimizers_that_there_are_not_are_refused() -> None:
    with pytest.raises(InputError, match=r'model\.moments = "bf16" of a model in fp16; allowed: "fp32"'):
        scenario(**{"model.moments": "bf16"})
    with pytest.raises(InputError, match=r'model\.optimizer: got "adm", allowed: "adam" or "lamb"'):
        scenario(**{"model.optimizer": "adm"})
    with pytest.raises(InputError, match=r'model\.master = "fp16" of a model in bf16; allowed: "bf16" or "fp32"'):
        scenario(**{**BF16, "model.master": "fp16"})
