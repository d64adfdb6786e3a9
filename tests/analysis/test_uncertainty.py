"""Samples: the slowest of many devices by order statistics, errors that plans share, and noise that they do not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from simfrontier.analysis.uncertainty import (
    Draws,
    Spread,
    band_of,
    factors,
    probability_faster,
    sampled_step_s,
    slowest,
    spread_of,
)
from simfrontier.arrays import Floats
from simfrontier.collectives import CallTable, Library, MeasuredPoint, Residual, load_library
from simfrontier.machine import load_machine
from simfrontier.schedule.ir import Collective
from simfrontier.schedule.mesh import Mesh
from simfrontier.simulation import DurationFactors, SimulatedStep, simulate_step
from simfrontier.workload import find_model
from tests.simulation.singles import calls
from tests.simulation.steps import schedule

MANY = 4000
LAW = Residual(model_sd=0.1, run_sd=0.05)
EVERYTHING = Spread(law=LAW, speed_sd=0.02, matmul_sd=0.03)
CERTAIN = Residual(model_sd=0.0, run_sd=0.0)
NOTHING = Spread(law=CERTAIN, speed_sd=0.0, matmul_sd=0.0)


@cache
def done(plan: str = "zero3", exact: bool = False, nodes: int = 2) -> SimulatedStep:
    return run(plan, load_library("rccl"), exact, nodes)


def run(plan: str, library: Library, exact: bool = False, nodes: int = 2) -> SimulatedStep:
    built = schedule(plan, Mesh((("node", nodes), ("package", 2), ("gcd", 2))), find_model("tiny"))
    return simulate_step(built, load_machine("toy-cluster"), library, exact=exact)


def drawn(counts: list[int], num_samples: int = MANY, seed: int = 1) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The slowest of classes of so many ranks, ranks of a class side by side."""
    first = np.cumsum([0, *counts[:-1]])
    return slowest(np.repeat(np.arange(len(counts)), counts), first, Draws(seed=seed, num_samples=num_samples))


# ── the slowest of many ──


class Fixed(Draws):
    """Draws of which every exponential number is ln 2, and the slowest rank of the machine rank 0."""

    def stream(self, *key: str | int) -> Any:
        class Stream:
            def standard_exponential(self, count: int) -> Any:
                return np.full(count, math.log(2.0))

            def integers(self, most: int, size: int) -> Any:
                return np.zeros(size, int)

        return Stream()


def test_the_slowest_of_two_classes_worked_by_hand() -> None:
    # E = ln 2, two devices: -ln(1 - p) = ln 2 / 2 on the class that holds the slowest, p = 1 - 2^-0.5 = 0.2929, at
    # 0.5449 deviations; on the other, of one device, ln 2 / 2 + ln 2, p = 1 - 2^-1.5 = 0.6464, at -0.3758.
    result = slowest(np.array([0, 1]), np.array([0, 1]), Fixed(seed=1, num_samples=2))
    assert result.tolist() == [pytest.approx([0.5449] * 2, abs=1e-4), pytest.approx([-0.3758] * 2, abs=1e-4)]


@pytest.mark.parametrize("count", [1, 2, 8, 384, 75_264])
def test_the_slowest_of_n_has_the_distribution_of_the_largest_of_n(count: int) -> None:
    """P(slowest < z) = Phi(z)^n; of 4000 samples the share below a quantile q is q within 4 sqrt(q (1 - q) / 4000)."""
    result = drawn([count])[0]
    for q in (0.05, 0.5, 0.95):
        tail = -math.expm1(math.log(q) / count)
        below = np.mean(result < -NormalDist().inv_cdf(tail))
        assert below == pytest.approx(q, abs=4 * math.sqrt(q * (1 - q) / MANY))


def test_each_of_several_classes_has_the_distribution_of_the_largest_of_its_own() -> None:
    for result, count in zip(drawn([5, 1, 2]), (5, 1, 2), strict=True):
        for q in (0.1, 0.5, 0.9):
            below = np.mean(result < NormalDist().inv_cdf(q ** (1 / count)))
            assert below == pytest.approx(q, abs=4 * math.sqrt(q * (1 - q) / MANY))


def test_classes_are_as_independent_as_their_devices() -> None:
    one, other = drawn([3, 3])
    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / math.sqrt(MANY)


@pytest.mark.parametrize("counts", [[8], [3, 5], [1] * 8, [6, 1, 1]])
def test_the_slowest_device_of_the_machine_is_the_same_however_ranks_are_classed(counts: list[int]) -> None:
    assert drawn(counts).max(axis=0) == pytest.approx(drawn([8])[0], rel=1e-12)


def test_the_slowest_of_the_whole_of_frontier_is_a_few_deviations_slow() -> None:
    result = drawn([37_632, 37_632])
    assert result.min() > 3.0 and result.max() < 7.0


# ── factors ──


def logs_of(step: SimulatedStep, made: DurationFactors) -> Floats:
    """By op of the program, the log of its factor [num_ops, num_samples]."""
    (noise,) = made.noise
    return np.stack(
        [made.of_op.get(op.number, 0.0) + made.run_sd * noise[at] for at, op in enumerate(step.program.ops)]
    )


def test_factors_have_the_deviations_that_are_asked_for() -> None:
    step = done()
    made = factors(step, EVERYTHING, "zero3", MANY, 1)
    logs = logs_of(step, made)
    calls = [index for index, op in enumerate(step.program.ops) if isinstance(op, Collective)]
    products = [i for i, op in enumerate(step.program.ops) if not isinstance(op, Collective) and op.matmul is not None]
    close = 5 / math.sqrt(2 * MANY)  # of a standard deviation from so many samples
    assert logs[calls].std(axis=1) == pytest.approx(math.hypot(0.1, 0.05), rel=close)
    assert logs[products].std(axis=1) == pytest.approx(0.03, rel=close)
    assert (logs[products] == logs[products[0]]).all()
    others = sorted({*range(step.program.num_ops)} - {*calls, *products})
    assert others and not logs[others].any()
    assert np.log(made.of_class[0]) == pytest.approx(0.02 * drawn([8])[0], rel=1e-12)


def test_a_device_slows_its_kernels_and_neither_hooks_nor_calls() -> None:
    small = {"persistence_elements": 128, "prefetch_elements": 20_000, "live_elements": 100_000}
    built = schedule("zero3", Mesh((("node", 2), ("package", 2), ("gcd", 2))), find_model("tiny"), **small)
    step = simulate_step(built, load_machine("toy-cluster"), load_library("rccl"))
    made = factors(step, EVERYTHING, "zero3", 1, 1)
    slowed = {op.kind for op in step.program.ops if made.on_device[op.number]}
    other = {op.kind for op in step.program.ops if not made.on_device[op.number]}
    assert {"matmul", "adam"} <= slowed and "hook" in other and not slowed & other
    assert {op.kind for op in step.program.ops if isinstance(op, Collective)} <= other


def by_kind(step: SimulatedStep, spread: Spread, plan: str) -> Mapping[tuple[object, ...], list[float]]:
    """The factors of each kind of call, of which every op must have the same."""
    made = factors(step, spread, plan, 5, 1)
    known: dict[tuple[object, ...], list[list[float]]] = {}
    for op, row in zip(step.program.ops, logs_of(step, made).tolist(), strict=True):
        if isinstance(op, Collective):
            size = step.schedule.mesh.size(op.axes)
            kind = op.kind, step.pricing.algorithms[op.number], size, step.pricing.volume_bytes(op), op.codec
            known.setdefault(kind, []).append(row)
    assert max(map(len, known.values())) > 1
    assert all(row == rows[0] for rows in known.values() for row in rows)
    return {kind: rows[0] for kind, rows in known.items()}


def test_plans_that_make_the_same_calls_share_their_errors() -> None:
    only_model = replace(NOTHING, law=replace(CERTAIN, model_sd=0.1))
    one, other = by_kind(done("zero3"), only_model, "zero3"), by_kind(done("zero2"), only_model, "zero2")
    both = one.keys() & other.keys()
    assert both and all(one[kind] == other[kind] for kind in both)
    assert len({tuple(row) for row in one.values()}) == len(one) > 2  # and each kind has its own


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_sizes_of_one_kind_of_call_share_a_part_of_their_error(share: float) -> None:
    """Two errors that have the part c of their variance in common correlate as c (2,000 samples: within 0.07)."""
    ops = [("all_gather", ("gcd",), size, "a", "library") for size in (2**20, 2**24)]
    step = simulate_step(
        calls(Mesh((("gcd", 4),)), *ops),  # type: ignore[arg-type]
        load_machine("toy-quad"),
        load_library("rccl"),
    )
    law = replace(CERTAIN, model_sd=0.1, common_share=share)
    one, other = logs_of(step, factors(step, replace(NOTHING, law=law), "two", 2000, 1))
    assert np.corrcoef(one, other)[0, 1] == pytest.approx(share, abs=0.07)
    assert one.std() == pytest.approx(0.1, rel=0.1)  # whatever is shared


def test_small_messages_and_kinds_without_times_err_more() -> None:
    """exp(sd z): the spread of what is sampled is what the library says of the kind and the size (2,000 samples)."""
    law = Residual(model_sd=0.1, run_sd=0.0, small_sd=0.2, small_bytes=2**22, all_to_all_sd=0.3)
    kinds = (("all_gather", 2**24), ("all_gather", 2**20), ("all_to_all", 2**24))
    ops = [(kind, ("node", "gcd"), size, "a", "library") for kind, size in kinds]
    step = simulate_step(
        calls(Mesh((("node", 2), ("gcd", 4))), *ops),  # type: ignore[arg-type]
        load_machine("toy-cluster"),
        load_library("rccl"),
    )
    logs = logs_of(step, factors(step, replace(NOTHING, law=law), "three", 2000, 1))
    assert logs.std(axis=1) == pytest.approx([0.1, 0.2, 0.3], rel=0.1)


def test_a_coded_reduction_errs_as_the_all_to_all_that_carries_it() -> None:
    """Whatever its schedule says of the way: it cannot be summed on a ring. A coded all-gather stays one."""
    law = Residual(model_sd=0.1, run_sd=0.0, all_to_all_sd=0.3, reduce_scatter_sd=0.2)
    ways = (("reduce_scatter", "library"), ("reduce_scatter", "ring"), ("all_gather", "library"))
    ops = [(kind, ("node", "gcd"), 2**24, "a", via) for kind, via in ways]
    step = simulate_step(
        calls(Mesh((("node", 2), ("gcd", 4))), *ops, codec="int8:64"),  # type: ignore[arg-type]
        load_machine("toy-cluster"),
        load_library("rccl"),
    )
    logs = logs_of(step, factors(step, replace(NOTHING, law=law), "coded", 2000, 1))
    assert logs.std(axis=1) == pytest.approx([0.3, 0.3, 0.1], rel=0.1)


def test_the_same_kind_of_call_errs_otherwise_at_another_number_of_devices() -> None:
    only_model = replace(NOTHING, law=replace(CERTAIN, model_sd=0.1))
    rows = [{tuple(row) for row in by_kind(done(nodes=nodes), only_model, "zero3").values()} for nodes in (2, 4)]
    assert not rows[0] & rows[1]


def test_noise_from_run_to_run_is_a_plans_own_and_every_calls_own() -> None:
    noisy = replace(NOTHING, law=replace(CERTAIN, run_sd=0.1))
    one, other = (logs_of(done(), factors(done(), noisy, plan, 3, 1)) for plan in ("a", "b"))
    calls = [index for index, op in enumerate(done().program.ops) if isinstance(op, Collective)]
    assert len(np.unique(one[calls])) == one[calls].size
    assert not np.isin(one[calls], other[calls]).any()


def test_a_measured_call_has_noise_but_no_error_of_a_law() -> None:
    points = (MeasuredPoint(bytes=1 << 10, seconds=1e-4), MeasuredPoint(bytes=1 << 24, seconds=1e-2))
    table = CallTable(kind="all_gather", ranks=8, nodes=2, packages=4, points=points)
    step = run("zero3", replace(load_library("rccl"), tables={table.group: table}))
    made = factors(step, replace(EVERYTHING, law=replace(LAW, run_sd=0.0)), "zero3", 3, 1)
    kinds = {"all_gather": False, "reduce_scatter": True, "all_reduce": True}
    assert kinds.keys() == {op.kind for op in step.program.ops if isinstance(op, Collective)}
    for op, row in zip(step.program.ops, logs_of(step, made), strict=True):
        if isinstance(op, Collective):
            assert row.all() == row.any() == kinds[op.kind]


# ── steps ──


def test_samples_are_the_same_for_the_same_seed_and_others_for_another() -> None:
    one, again, other = (sampled_step_s(done(), "zero3", 50, seed) for seed in (1, 1, 2))
    assert one is not None and again is not None and other is not None
    assert (one == again).all() and not (one == other).any()


def test_more_samples_begin_with_the_fewer() -> None:
    few, more = (sampled_step_s(done("zero3"), "zero3", count, 1) for count in (20, 50))
    assert few is not None and more is not None
    assert len(more) == 50 and (more[:20] == few).all()


@pytest.mark.parametrize("plan", ["zero3", "zero-topo"])
def test_folded_and_exact_samples_are_close(plan: str) -> None:
    """Every rank by itself has the same slowest device of the machine; what the slowest of other classes costs is told
    class by class, and may differ a little where a class's ranks do not all meet."""
    folded, exact = (sampled_step_s(done(plan, exact), plan, 50, 1) for exact in (False, True))
    assert folded is not None and exact is not None
    assert exact == pytest.approx(folded, rel=1e-2)


def test_where_nothing_is_known_there_are_no_samples() -> None:
    certain = run("zero3", replace(load_library("rccl"), residual=None))
    assert spread_of(certain.pricing.machine, certain.pricing.library) == NOTHING
    assert sampled_step_s(certain, "zero3", 50, 1) is None
    assert sampled_step_s(done(), "zero3", 0, 1) is None


def test_what_is_known_of_machine_and_library_is_sampled() -> None:
    machine = load_machine("toy-cluster")
    library = replace(load_library("rccl"), residual=LAW)
    spread = spread_of(replace(machine, device=replace(machine.device, speed_sd=0.02, matmul_sd=0.03)), library)
    assert spread == EVERYTHING


def test_the_slowest_device_makes_steps_longer_than_the_typical_one() -> None:
    step = done()
    made = factors(step, replace(NOTHING, speed_sd=0.02), "zero3", 200, 1)
    assert np.median(made.of_class) > 1.02  # of eight devices: half the time beyond 1.38 deviations
    assert not logs_of(step, made).any()


# ── what samples say ──


def test_a_band_is_the_5_the_50_and_the_95_percent_quantile() -> None:
    assert band_of(np.arange(101.0)) == (5.0, 50.0, 95.0)


def test_the_probability_counts_equal_samples_half() -> None:
    # 1 < 2 and 4 < 5 are faster, 2 = 2 counts half, 3 > 1 does not: 2.5 of 4
    one, other = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 2.0, 1.0, 5.0])
    assert probability_faster(one, other) == 0.625


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1))
def test_the_probabilities_of_both_being_faster_make_one(pairs: list[tuple[int, int]]) -> None:
    one, other = np.array(pairs, float).T
    assert probability_faster(one, other) + probability_faster(other, one) == pytest.approx(1.0)
