"""Estimates of points of a sweep: each is that of its own scenario, whatever was estimated before."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from simfrontier.scenario import Scenario, scenario_of
from simfrontier.sweep.estimates import MOST_MACHINES, Estimates
from tests.invoke import TOY

DOCUMENT: dict[str, Any] = tomllib.loads(TOY.read_text(encoding="utf-8"))


def scenario(**settings: Any) -> Scenario:
    return scenario_of(DOCUMENT, "toy.toml", {key.replace("__", "."): value for key, value in settings.items()})


@pytest.mark.parametrize(
    "settings",
    [
        {"stack": "deepspeed"},
        {"stack": "fsdp1"},
        {"mesh__devices_per_node": 2},
        {"model__hidden": 128},
        {"model__attention": "fused"},
        {"library__name": "nccl"},
        {"perturbation__slow": [{"device": 0, "factor": 0.5}]},
        {"run__placement": "cyclic"},
    ],
    ids=str,
)
def test_an_estimate_is_of_its_own_scenario(settings: dict[str, Any]) -> None:
    estimates, other = Estimates(), scenario(**settings)
    assert estimates.of(scenario(), "zero3", 8) is not None
    assert estimates.of(other, "zero3", 8) == Estimates().of(other, "zero3", 8)


def test_few_machines_are_kept() -> None:
    estimates = Estimates()
    for number in range(1, MOST_MACHINES + 3):
        hook = {"machine__overrides__host__hook_s": number * 1e-6}
        assert estimates.of(scenario(**hook), "zero3", 8) == Estimates().of(scenario(**hook), "zero3", 8)
    assert len(estimates._known) == MOST_MACHINES
