"""A plan without a grid: the smallest grid that fits, tensor parallelism in a node first."""

from __future__ import annotations

from typing import Any

import pytest

from simfrontier.answers.search import GridSearcher
from simfrontier.core.plan import MegatronOptions
from simfrontier.inputs.scenario import Scenario, scenario_of
from simfrontier.inputs.scenario.usual_grid import usual_grids


def scenario(memory: float, **model: Any) -> Scenario:
    """A tiny model on two nodes of eight devices with so many bytes each."""
    document = {
        "name": "usual",
        "title": "Usual",
        "machine": {"name": "toy-cluster", "overrides": {"device.hbm_bytes": memory}},
        "model": {"name": "tiny", **model},
        "training": {"batch": 16},
        "run": {"devices": [16]},
        "plans": {"megatron": "megatron", "tp1": "tp 1"},
    }
    return scenario_of(document, "usual.toml")


def grid(made: Scenario) -> tuple[int, int]:
    options = GridSearcher().complete(made).resolved_options["megatron", 16]
    assert isinstance(options, MegatronOptions)
    return options.tensor, options.pipeline


def test_tensor_parallelism_grows_first_in_a_node_then_the_stages() -> None:
    grids = list(usual_grids(scenario(16e9, heads=16, hidden=64), 16))
    per_node = scenario(16e9).machine.devices_per_node
    assert [(each["tensor"], each["pipeline"]) for each in grids] == [
        *((2**n, 1) for n in range(per_node.bit_length())),
        (per_node, 2),
    ]


@pytest.mark.parametrize(("memory", "expected"), [(16e9, (1, 1)), (1.0, (4, 2))])
def test_the_first_that_fits_is_taken_or_the_largest_if_none_does(memory: float, expected: tuple[int, int]) -> None:
    """Of heads = 4 and two layers, tensor 4 and two stages are the most."""
    assert grid(scenario(memory)) == expected


def test_a_larger_grid_is_taken_where_a_smaller_one_does_not_fit() -> None:
    """A parameter takes 2 bytes of weight, 2 of gradient and 12 / 16 of the optimizer's states on 16 data ranks."""
    made = scenario(16e9, hidden=4096, heads=32)
    assert grid(made) == (1, 1)
    assert grid(scenario(4.7 * made.shape.num_parameters, hidden=4096, heads=32)) == (2, 1)
