"""Prices in closed form are those of the simulation's ops and calls alone, one machine at a time or many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.answers.study import ScheduleCache, schedule_of
from simfrontier.core.collectives import GroupShape, Library, algorithm, load_library
from simfrontier.core.cost import EqualGroups, Prices, VariedPrices, price
from simfrontier.core.machine import load_machine
from simfrontier.core.program import CollectiveKind
from simfrontier.inputs.scenario import load_scenario, varied_numbers, with_numbers
from tests.core.engine.singles import single
from tests.core.network.brute import limits
from tests.whatif import LAWS, drawn

FRONTIER, RCCL = load_machine("frontier"), load_library("rccl")
KINDS: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_ranks", [2, 8, 64])
def test_it_is_what_the_simulator_takes(kind: CollectiveKind, num_ranks: int) -> None:
    groups = EqualGroups(FRONTIER, num_ranks)
    for size in (4096, 2**20, 2**26):
        simulated = single(kind, size, num_ranks, fidelity="analytic", library=RCCL).step_s
        assert groups.seconds(RCCL, kind, size) == pytest.approx(simulated, rel=1e-9)


def test_strided_groups_share_the_nics() -> None:
    """64 GCDs on 8 nodes. One group of all: 4 NICs of 25 GB/s carry one ring, 100 GB/s for a rank. 8 groups of one GCD
    of each node: two of them on each NIC, 12.5 GB/s for each."""
    whole, strided = EqualGroups(FRONTIER, 64), EqualGroups(FRONTIER, 64, stride=8)
    assert limits(whole, "ring", RCCL)["nic"] == pytest.approx(100e9)
    assert limits(strided, "ring", RCCL)["nic"] == pytest.approx(12.5e9)
    assert (strided.shape.size, strided.shape.num_nodes, strided.shape.num_packages) == (8, 8, 8)
    simulated = single("all_gather", 2**26, 64, fidelity="analytic", library=RCCL, axes=("node",)).step_s
    assert strided.seconds(RCCL, "all_gather", 2**26) == pytest.approx(simulated, rel=1e-9)


@pytest.mark.parametrize(
    ("devices", "stride"),
    [(8, 1), (16, 8), (64, 1)],
)
@pytest.mark.parametrize("library", ["rccl", "nccl"])
def test_times_jump_only_where_the_library_changes_its_mind(library: str, devices: int, stride: int) -> None:
    """Twice the bytes take as long or longer, and at most twice as long, while algorithm and protocol stay: halves of
    powers of two, so that nothing hides between the sizes that are looked at."""
    groups, used = EqualGroups(FRONTIER, devices, stride), load_library(library)
    assert used.tuning is not None

    def way(size: float) -> tuple[bool, str]:
        assert used.tuning is not None
        by_tree = used.tuning.takes_tree(size, groups.shape)
        return by_tree, used.tuning.takes_ll("tree" if by_tree else "ring", "all_reduce", size, groups.shape)

    compared = 0
    for size in [64 * 2 ** (number / 2) for number in range(60)]:
        if way(size) == way(2 * size):
            once, twice = (groups.seconds(used, "all_reduce", each) for each in (size, 2 * size))
            assert once * (1 - 1e-9) <= twice <= 2 * once * (1 + 1e-9), f"{size:,.0f} bytes"
            compared += 1
    assert compared > 40


SMALL = {"model.num_layers": 2, "training.grad_accum": 1}


@pytest.mark.parametrize(
    ("scenario", "plan", "devices", "settings"),
    [
        ("frontier-20b", "zeropp", 384, SMALL),
        ("frontier-20b", "zero-topo", 64, {**SMALL, "run.placement": "cyclic"}),
        ("frontier-20b", "zero3", 16, {**SMALL, "perturbation.slow": [{"device": 3, "factor": 0.5}]}),
        ("frontier-1t-3d", "1f1b", 3072, {"model.num_layers": 16, "training.grad_accum": 2}),
        ("crosscheck", "zero3", 8, {}),
        ("compressed-3d", "ZHybrid", 8, {}),
    ],
)
def test_every_op_takes_what_the_slowest_of_its_groups_takes_alone(
    scenario: str, plan: str, devices: int, settings: dict[str, object]
) -> None:
    made = load_scenario(f"scenarios/{scenario}.toml", settings, (plan,), (devices,))
    schedule = schedule_of(made, plan, devices)
    pricing = price(schedule, made.machine, made.library, made.file.perturbation, placement=made.file.run.placement)
    prices = Prices(made.machine, made.library, devices, made.file.perturbation, made.file.run.placement)
    ops = list(schedule.ops)
    assert len(ops) > 20
    for op in ops:
        slowest = max(work.alone_s for work in pricing.of(op).works)
        assert prices.seconds(op, schedule) == pytest.approx(slowest, rel=1e-9), op.name


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
        for op in schedule.ops:
            if pricing.of(op).pattern != exact.of(op).pattern:
                continue  # another algorithm, of other classes
            own = [work.alone_s for work in exact.of(op).works]
            assert prices.alone_s(op)[:, number + 1] == pytest.approx(own, rel=1e-12, abs=1e-18), op.name
            compared_ops += 1
    assert compared_ops > 20
