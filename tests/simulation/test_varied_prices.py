"""Prices of ops for many variations at once, against those of each variation by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.collectives import GroupShape, Library, algorithm, load_library
from simfrontier.cost import VariedPrices, price
from simfrontier.scenario import load_scenario, varied_numbers, with_numbers
from simfrontier.schedule import CollectiveKind
from simfrontier.study import ScheduleCache
from tests.whatif import LAWS, drawn

SHAPES = (
    GroupShape(size=2, num_nodes=1, num_packages=1),
    GroupShape(size=8, num_nodes=1, num_packages=4),
    GroupShape(size=16, num_nodes=2, num_packages=8),
    GroupShape(size=48, num_nodes=48, num_packages=48),
    GroupShape(size=384, num_nodes=48, num_packages=192),
)
few = settings(max_examples=10, deadline=None)
factors = st.lists(st.floats(0.2, 5.0), min_size=6, max_size=6)
calls = given(factors=factors, size=st.floats(8.0, 1e10), shape=st.sampled_from(SHAPES))


@pytest.fixture(scope="module", params=["rccl", "gloo", "cray-mpich"])
def library(request: pytest.FixtureRequest) -> Library:
    return load_library(request.param)


# ── formulas of arrays ──


def with_laws(library: Library, times: Any) -> Library:
    """A library whose start-up times are so many times as long."""
    changed = {}
    for name in LAWS:
        law = getattr(library, name)
        if law is not None:
            each = ("base_s", "hop_in_node_s", "hop_between_nodes_s")
            changed[name] = replace(law, **{key: getattr(law, key) * times for key in each})
    return replace(library, **changed)


@few
@calls
def test_laws_of_arrays_are_those_of_each(
    library: Library, factors: list[float], size: float, shape: GroupShape
) -> None:
    def latency_s(by: str, kind: CollectiveKind, times: Any) -> Any:
        return algorithm(by).latency_s(with_laws(library, times), kind, size, shape, 1e10 / times)

    for kind, names in library.choices.items():
        for by in [each for each in names if not algorithm(each).not_as_loads]:
            each = [latency_s(by, kind, factor) for factor in factors]
            assert latency_s(by, kind, np.array(factors)) == pytest.approx(each, rel=1e-12), (kind, by)
            assert {type(one) for one in each} == {float}


# ── prices ──


@pytest.mark.parametrize(
    ("scenario", "plan", "devices", "changed"),
    [
        ("toy", "zero-topo", 16, {}),
        ("frontier-20b", "zero3", 32, {"machine.name": "perlmutter-80gb"}),
        ("compressed-3d", "ZHybrid", 8, {}),
    ],
)
def test_every_op_takes_what_it_is_priced_at(scenario: str, plan: str, devices: int, changed: dict[str, Any]) -> None:
    loaded = load_scenario(f"scenarios/{scenario}.toml", changed)
    axes = drawn(loaded, 3, np.random.default_rng(7))
    schedule = ScheduleCache().get(loaded, plan, devices).schedule
    here = loaded.of(plan, devices)
    pricing = price(schedule, here.machine, here.library)
    numbers = varied_numbers(here, axes)
    prices = VariedPrices(pricing, numbers.machine, numbers.library, numbers.num_variations)
    compared_ops = 0
    for number in range(3):
        other = with_numbers(here, {key: float(values[number]) for key, values in axes.items()})
        exact = price(schedule, other.machine, other.library)
        for op in schedule.distinct_ops():
            if pricing.of(op).pattern != exact.of(op).pattern:
                continue  # another algorithm, of other classes
            own = [work.alone_s for work in exact.of(op).works]
            assert prices.alone_s(op)[:, number + 1] == pytest.approx(own, rel=1e-12, abs=1e-18), op.name
            compared_ops += 1
    assert compared_ops > 20
