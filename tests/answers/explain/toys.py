"""Scenarios that the tests of explanations share: small, with every sort of plan."""

from __future__ import annotations

from functools import cache
from typing import Any

from simfrontier.answers.explain import Explanation, explain
from simfrontier.answers.study import ScheduleCache, simulated
from simfrontier.core.engine.memory import fullest
from simfrontier.inputs.scenario import Scenario, load_scenario, scenario_of
from tests.invoke import TOY

GRIDS: dict[str, Any] = {
    "name": "grids",
    "title": "Grids",
    "machine": {"name": "toy-cluster"},
    "model": {"name": "tiny"},
    "training": {"batch": 16},
    "run": {"devices": [8]},
    "uncertainty": {"samples": 0},
    "plans": {
        "pipe": {"family": "megatron", "tensor": 2, "pipeline": 2, "grad_accum": 2, "data": "zero1"},
        "grid": {"family": "axonn", "x": 2, "z": 2, "oag": False, "data": {"family": "ddp"}},
        "searched": {"family": "megatron", "search": {"values": {"tensor": [1, 2], "data": ["zero1", "ddp"]}}},
    },
}


def toy(*plans: str, devices: int = 8, **settings: Any) -> Scenario:
    return load_scenario(TOY, settings, plans, (devices,))


def grids(**settings: Any) -> Scenario:
    return scenario_of(GRIDS, "grids.toml", settings)


@cache
def of_toy(plan: str) -> Explanation:
    """The toy scenario's plan on 8 devices, explained, zero3 against zero-topo."""
    return explain(load_scenario(TOY), plan, devices=8, against="zero-topo" if plan == "zero3" else None)


_SHOP = ScheduleCache()


def ran(scenario: Scenario, plan: str, devices: int) -> tuple[float, int]:
    """The step and the peak of a plan, as `run` has them."""
    built = _SHOP.get(scenario, plan, devices)
    step = simulated(scenario.of(plan, devices), built, scenario.file.run.fidelity)
    return step.step_s, fullest(step, built.peaks).peak_bytes
